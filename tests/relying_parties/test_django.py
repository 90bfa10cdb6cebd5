"""mozilla-django-oidc, with the settings of its installation guide (`django/site.py`)."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from program import Program, free_port

FOLDER = Path(__file__).parent / "django"


@pytest.fixture
def site(demo, api, tmp_path):
    port = free_port()
    address = f"http://localhost:{port}"
    client = api.create_client(f"{address}/oidc/callback/")
    environment = {
        **os.environ,
        "SITE_DATABASE": str(tmp_path / "site.db"),
        "SITE_ISSUER": demo.issuer,
        "SITE_CLIENT_ID": client["client_id"],
        "SITE_CLIENT_SECRET": client["client_secret"],
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    manage = [sys.executable, str(FOLDER / "site_manage.py")]
    subprocess.run([*manage, "migrate", "--verbosity", "0"], env=environment, check=True, timeout=120)
    server = [*manage, "runserver", "--noreload", f"127.0.0.1:{port}"]
    program = Program(server, port, tmp_path / "output.log", env=environment)
    yield address
    program.stop()


def test_sign_in(demo, site, ada):
    assert ada.session.get(f"{site}/", timeout=15).text == "nobody"
    answer = ada.walk(f"{site}/oidc/authenticate/", until=f"{site}/oidc/callback/")
    assert isinstance(answer, str) and ada.steps == ["password"], answer
    page = ada.session.get(answer, timeout=15)
    assert (page.url, page.text) == (f"{site}/", demo.user("ada")["email"])
