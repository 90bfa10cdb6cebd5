"""Sarsen with a certificate of its own, the suite, and the clients that it signs users in with."""

import os
import shutil
import sys
from pathlib import Path

import pytest
import requests

TESTS = Path(__file__).resolve().parents[1]
sys.path += [str(TESTS / name) for name in ("outside/python", "relying_parties", "edge")]

from authority import Authority  # noqa: E402
from installation import Installation, demo_data  # noqa: E402
from person import Person  # noqa: E402
from program import free_port  # noqa: E402
from robot import Robot  # noqa: E402
from suite import ALIAS, Suite  # noqa: E402


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """A folder with a certificate, which all programs of the test trust."""
    made = tmp_path_factory.mktemp("openid")
    authority = Authority(made)
    authority.issue(made)
    for name in ("REQUESTS_CA_BUNDLE", "SSL_CERT_FILE"):
        os.environ[name] = str(authority.file)
    return made


@pytest.fixture(scope="session")
def suite(folder):
    """The suite that was built in the folder `SARSEN_OPENID_SUITE`."""
    built = os.environ.get("SARSEN_OPENID_SUITE")
    assert built, "SARSEN_OPENID_SUITE names the folder where the suite was built"
    program = Suite(built, folder, folder)
    yield program
    program.stop()


@pytest.fixture(scope="session")
def server(folder):
    data, says = demo_data(folder / "demo")
    shutil.copytree(data, folder / "server")
    tls = {"tls_certificate": str(folder / "tls.pem"), "tls_key": str(folder / "tls.key")}
    installation = Installation(folder / "server", says, None, free_port(), **tls)
    installation.start()
    make_keys(installation)
    yield installation
    installation.stop()


def make_keys(installation):
    """Signs a user in: the first ID token of a new installation makes the RSA key. The suite reads the keys before that."""
    client, user = installation.client("cli")["client_id"], installation.user("ada")
    device = send(installation, "device/code", client_id=client, scope="openid")
    Person(user["email"], user["password"]).walk(f"{installation.issuer}/activate", user_code=device["user_code"])
    grant = "urn:ietf:params:oauth:grant-type:device_code"
    send(installation, "token", client_id=client, grant_type=grant, device_code=device["device_code"])


def send(installation, endpoint, **fields):
    answer = requests.post(f"{installation.issuer}/auth/{endpoint}", data=fields, timeout=60)
    assert answer.ok, answer.text
    return answer.json()


@pytest.fixture(scope="session")
def configuration(server, suite):
    """What the suite knows of Sarsen: its address, two clients, and how its user signs in."""
    headers, address = server.administrator()

    def client(name):
        body = {
            "service": server.says["services"]["web"],
            "kind": "web",
            "name": name,
            "redirect_uris": [suite.callback],
            "post_logout_redirect_uris": [suite.after_sign_out],
        }
        made = requests.post(f"{address}/clients", json=body, headers=headers, timeout=15)
        assert made.status_code == 201, made.text
        return {field: made.json()[field] for field in ("client_id", "client_secret")}

    user = server.user("ada")
    robot, second = Robot(server.issuer, user), client("Second")
    discovery = f"{server.issuer}/.well-known/openid-configuration"
    return {
        "alias": ALIAS,
        "description": "Sarsen",
        "publish": "",
        "server": {"discoveryUrl": discovery, "login_hint": user["email"]},
        "client": client("First"),
        "client2": second,
        "client_secret_post": second,
        "browser": robot.instructions(),
        "override": robot.overrides(),
    }
