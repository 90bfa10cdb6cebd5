"""The settings, from the environment.

`sarsen dev` sets those of Sarsen, and writes them to `.env.local` for programs that it does not start.
"""

import sys
from hashlib import sha256
from urllib.parse import urlsplit

from pydantic import ValidationError, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict


class Settings(BaseSettings):
    model_config = SettingsConfigDict(env_file=".env.local", extra="ignore")

    oidc_issuer: str
    oidc_client_id: str
    oidc_client_secret: str
    host: str = "localhost"
    port: int = 3000
    base_url: str = ""
    session_secret: str = ""

    @property
    def is_https(self):
        return self.base_url.startswith("https:")

    @property
    def is_local(self):
        return urlsplit(self.base_url).hostname == "localhost"

    @model_validator(mode="after")
    def complete(self):
        self.base_url = self.base_url or f"http://localhost:{self.port}"
        # On this machine a secret is made from the client's, so that there is one setting less and a restart signs nobody out.
        if not self.session_secret:
            if not self.is_local:
                raise ValueError("SESSION_SECRET is not set; make one with: openssl rand -hex 32")
            self.session_secret = sha256(f"cookies of the site {self.oidc_client_secret}".encode()).hexdigest()
        return self


try:
    settings = Settings()
except ValidationError as error:
    wrong = ", ".join(str(part["loc"][0]).upper() if part["loc"] else part["msg"] for part in error.errors())
    sys.exit(f"These settings are missing or wrong: {wrong}. README.md lists them; `sarsen dev` sets those of Sarsen.")
