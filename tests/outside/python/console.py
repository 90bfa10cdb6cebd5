"""Access tokens of administrators, from the console's own client."""

import base64
import hashlib
import secrets
from urllib.parse import parse_qs, urlencode, urlsplit

import requests


def token_of(demo, administrator, scope):
    """Signs a person in at the console."""
    verifier = secrets.token_urlsafe(32)
    challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
    callback = f"{demo.issuer}/console"
    query = {
        "response_type": "code",
        "client_id": "console",
        "redirect_uri": callback,
        "scope": scope,
        "code_challenge": challenge,
        "code_challenge_method": "S256",
    }
    answer = administrator.walk(f"{demo.issuer}/auth/authorize?{urlencode(query)}", until=f"{callback}?")
    fields = {
        "grant_type": "authorization_code",
        "client_id": "console",
        "redirect_uri": callback,
        "code": parse_qs(urlsplit(answer).query)["code"][0],
        "code_verifier": verifier,
    }
    tokens = requests.post(f"{demo.issuer}/auth/token", data=fields, timeout=administrator.limit_s)
    assert tokens.ok, tokens.text
    return tokens.json()["access_token"]
