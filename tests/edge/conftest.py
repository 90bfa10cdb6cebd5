"""The data of a demo, an authority for certificates, and servers on both."""

import shutil
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
sys.path += [str(TESTS / "outside/python"), str(TESTS / "relying_parties")]

from authority import Authority  # noqa: E402
from installation import Installation, demo_data  # noqa: E402
from program import free_port  # noqa: E402


@pytest.fixture(scope="session")
def data(tmp_path_factory):
    """The folder of a demo that has stopped, and what the demo printed."""
    return demo_data(tmp_path_factory.mktemp("demo") / "data")


@pytest.fixture(scope="session")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(autouse=True)
def trust(authority, monkeypatch):
    """All clients trust the authority."""
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(authority.file))
    monkeypatch.setenv("CURL_CA_BUNDLE", str(authority.file))
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))


@pytest.fixture
def install(data, tmp_path):
    """Makes an installation of a server that is not started yet."""
    made = []

    def make(issuer, **settings):
        folder, says = data
        shutil.copytree(folder, tmp_path / "server")
        made.append(Installation(tmp_path / "server", says, issuer, free_port(), **settings))
        return made[-1]

    yield make
    for installation in made:
        installation.stop()


@pytest.fixture
def server(install, authority, tmp_path):
    """A server with a certificate of its own."""
    authority.issue(tmp_path)
    installation = install(None, tls_certificate=str(tmp_path / "tls.pem"), tls_key=str(tmp_path / "tls.key"))
    installation.start()
    return installation
