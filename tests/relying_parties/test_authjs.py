"""Auth.js in Express, with a provider of type `oidc` (`authjs/site.mjs`)."""

import os
from pathlib import Path

import pytest
from program import Program, free_port

FOLDER = Path(__file__).parent / "authjs"


@pytest.fixture
def site(demo, api, tmp_path):
    port = free_port()
    address = f"http://localhost:{port}"
    client = api.create_client(f"{address}/auth/callback/sarsen")
    environment = {
        **os.environ,
        "AUTH_SECRET": "a secret of the test, of 32 or more letters",
        "SITE_PORT": str(port),
        "SITE_ISSUER": demo.issuer,
        "SITE_CLIENT_ID": client["client_id"],
        "SITE_CLIENT_SECRET": client["client_secret"],
    }
    command = [os.environ.get("SARSEN_NODE", "node"), str(FOLDER / "site.mjs")]
    program = Program(command, port, tmp_path / "output.log", env=environment)
    yield address
    program.stop()


def test_sign_in(demo, site, ada):
    assert ada.session.get(f"{site}/", timeout=15).text == "nobody"
    csrf = ada.session.get(f"{site}/auth/csrf", timeout=15).json()["csrfToken"]
    fields = {"csrfToken": csrf, "callbackUrl": f"{site}/"}
    begun = ada.session.post(f"{site}/auth/signin/sarsen", data=fields, allow_redirects=False, timeout=15)
    assert begun.status_code in (302, 303), begun.text
    answer = ada.walk(begun.headers["Location"], until=f"{site}/auth/callback/sarsen")
    assert isinstance(answer, str) and ada.steps == ["password"], answer
    page = ada.session.get(answer, timeout=15)
    assert (page.url, page.text) == (f"{site}/", demo.user("ada")["email"])
