"""One demo server for all Python tests. The libraries must be told that plain HTTP on loopback is meant."""

import os

os.environ["AUTHLIB_INSECURE_TRANSPORT"] = "1"
os.environ["OAUTHLIB_INSECURE_TRANSPORT"] = "1"

import pytest  # noqa: E402
import requests  # noqa: E402
from demo import Demo  # noqa: E402


@pytest.fixture(scope="session")
def demo():
    server = Demo()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def metadata(demo):
    """The discovery document, as any client reads it."""
    answer = requests.get(f"{demo.issuer}/.well-known/openid-configuration", timeout=15)
    assert answer.status_code == 200, answer.text
    return answer.json()
