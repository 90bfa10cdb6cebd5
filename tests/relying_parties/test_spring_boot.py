"""Spring Boot: `oauth2Login` and a resource server with the properties of its reference."""

import os
import subprocess
from pathlib import Path

import pytest
import requests
from oauth import access_token
from program import Program, free_port

FOLDER = Path(__file__).parent / "spring"
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", FOLDER.parents[2] / "target"))
BUILD = TARGET / "relying-party-spring"
BUILD_LIMIT_S = 900


@pytest.fixture(scope="module")
def program_file():
    """The site as one file. Maven keeps what it downloads."""
    command = ["mvn", "--batch-mode", "--quiet", f"-Dsarsen.build={BUILD}", "package"]
    built = subprocess.run(command, cwd=FOLDER, capture_output=True, text=True, timeout=BUILD_LIMIT_S)
    assert built.returncode == 0, built.stdout[-6000:]
    return BUILD / "site.jar"


@pytest.fixture
def site(demo, api, tmp_path, program_file):
    port = free_port()
    address = f"http://localhost:{port}"
    client = api.create_client(f"{address}/login/oauth2/code/sarsen")
    login = "spring.security.oauth2.client"
    properties = {
        "server.port": port,
        "server.address": "127.0.0.1",
        f"{login}.registration.sarsen.client-id": client["client_id"],
        f"{login}.registration.sarsen.client-secret": client["client_secret"],
        f"{login}.registration.sarsen.scope": "openid,profile,email",
        f"{login}.provider.sarsen.issuer-uri": demo.issuer,
        "spring.security.oauth2.resourceserver.jwt.issuer-uri": demo.issuer,
    }
    command = ["java", "-jar", str(program_file), *(f"--{name}={value}" for name, value in properties.items())]
    program = Program(command, port, tmp_path / "output.log")
    yield address, client
    program.stop()


def test_sign_in(demo, site, ada):
    address, _ = site
    answer = ada.walk(f"{address}/", until=f"{address}/login/oauth2/code/sarsen")
    assert isinstance(answer, str) and ada.steps == ["password"], answer
    page = ada.session.get(answer, timeout=30)
    assert (page.status_code, page.text) == (200, demo.user("ada")["email"])


def test_the_resource_server_accepts_tokens_of_type_jwt(demo, api, site, ada):
    address, client = site
    for typ, expected in [("at+jwt", 401), ("JWT", 200)]:
        api.change_service(access_token_typ=typ)
        token = access_token(demo, client, ada)
        answer = requests.get(f"{address}/api", headers={"Authorization": f"Bearer {token}"}, timeout=30)
        assert answer.status_code == expected, (typ, answer.headers.get("WWW-Authenticate"))
