"""A demo server, and clients that are created with nothing but their redirect URI."""

import os
import sys
from pathlib import Path

import pytest
import requests
from playwright.sync_api import expect, sync_playwright

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "outside/python"))

from console import token_of  # noqa: E402
from demo import Demo  # noqa: E402
from guide import Reader  # noqa: E402
from person import Person  # noqa: E402
from program import free_port  # noqa: E402

BROWSER_LIMIT_MS = 20_000


@pytest.fixture(scope="session")
def demo():
    server = Demo()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def api(demo):
    """The API of the demo's organization, called by its administrator."""
    return Api(demo)


@pytest.fixture
def own_demo():
    """A demo of the test's own, for tests that change plans and end sessions."""
    server = Demo()
    yield server
    server.stop()


@pytest.fixture
def browser_page():
    """An empty page of a browser that has never been anywhere."""
    with sync_playwright() as playwright:
        arguments = ["--no-sandbox", "--disable-gpu", "--no-first-run"]
        program = os.environ.get("CHROMIUM", "/usr/bin/chromium")
        browser = playwright.chromium.launch(executable_path=program, args=arguments)
        page = browser.new_page()
        page.set_default_timeout(BROWSER_LIMIT_MS)
        expect.set_options(timeout=BROWSER_LIMIT_MS)
        yield page
        browser.close()


@pytest.fixture
def site_port():
    return free_port()


@pytest.fixture
def reader(own_demo, tmp_path, site_port):
    administrator = own_demo.says["organization"]["admin"]
    return Reader(tmp_path, administrator, own_demo.issuer.rsplit(":", 1)[1], site_port)


@pytest.fixture
def ada(demo):
    """A user in a browser of her own."""
    user = demo.user("ada")
    return Person(user["email"], user["password"])


class Api:
    def __init__(self, demo):
        slug = demo.says["organization"]["slug"]
        self.address = f"{demo.issuer}/api/organizations/{slug}"
        self.service = demo.says["services"]["web"]
        self.session = requests.Session()
        login = demo.says["organization"]["admin"]
        token = token_of(demo, Person(login["email"], login["password"]), f"org:{slug}")
        self.session.headers["Authorization"] = f"Bearer {token}"

    def create_client(self, redirect_uri):
        """A confidential client with the default settings."""
        body = {"service": self.service, "kind": "web", "name": "Relying party", "redirect_uris": [redirect_uri]}
        return self._send("POST", "clients", body)

    def change_client(self, client, **changes):
        return self._send("PATCH", f"clients/{client['client_id']}", changes)

    def change_service(self, **changes):
        return self._send("PATCH", f"services/{self.service}", changes)

    def _send(self, method, path, body):
        answer = self.session.request(method, f"{self.address}/{path}", json=body, timeout=15)
        assert answer.ok, answer.text
        return answer.json()
