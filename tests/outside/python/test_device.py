"""requests-oauthlib on a device; the person approves through plain HTTP forms."""

import time

import pytest
import requests
from oauthlib.oauth2 import DeviceClient, OAuth2Error
from person import Person
from requests_oauthlib import OAuth2Session

POLL_LIMIT_S = 40


def ask_for_code(demo, metadata):
    client = DeviceClient(demo.client("cli")["client_id"], scope=["openid", "profile", "email"])
    address = client.prepare_request_uri(metadata["device_authorization_endpoint"])
    endpoint, _, fields = address.partition("?")
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    answer = requests.post(endpoint, data=fields, headers=headers, timeout=15)
    assert answer.status_code == 200, answer.text
    return OAuth2Session(client=client), answer.json()


def poll(session, metadata, device):
    """Asks as RFC 8628 says until there is an answer that is not "wait"."""
    deadline = time.monotonic() + POLL_LIMIT_S
    interval = device["interval"]
    while time.monotonic() < deadline:
        try:
            return session.fetch_token(
                metadata["token_endpoint"], device_code=device["device_code"], include_client_id=True, timeout=15
            )
        except OAuth2Error as error:
            if error.error not in ("authorization_pending", "slow_down"):
                raise
            interval += 5 if error.error == "slow_down" else 0
            time.sleep(interval)
    raise AssertionError(f"no decision reached the device within {POLL_LIMIT_S} s")


def decide(demo, address, decision, name="ada", user_code=None):
    user = demo.user(name)
    person = Person(user["email"], user["password"])
    person.walk(address, decision=decision, user_code=user_code)
    return person.steps


def test_approval(demo, metadata):
    session, device = ask_for_code(demo, metadata)
    steps = decide(demo, device["verification_uri_complete"], "allow")
    assert steps[0] in ("password", "user_code") and steps[-1] == "allow", steps
    token = poll(session, metadata, device)
    assert token["token_type"].lower() == "bearer"

    subscription = session.get(f"{demo.issuer}/api/subscription", timeout=15)
    assert subscription.status_code == 200, subscription.text
    assert subscription.json()["plan"] == "pro"
    assert session.get(f"{demo.issuer}/api/user", timeout=15).json()["email"] == demo.user("ada")["email"]


def test_the_code_typed_by_hand(demo, metadata):
    session, device = ask_for_code(demo, metadata)
    typed = device["user_code"].replace("-", " ").lower()
    steps = decide(demo, device["verification_uri"], "allow", name="grace", user_code=typed)
    assert "user_code" in steps, steps
    poll(session, metadata, device)
    assert session.get(f"{demo.issuer}/api/subscription", timeout=15).json()["plan"] == "free"


def test_denial(demo, metadata):
    session, device = ask_for_code(demo, metadata)
    decide(demo, device["verification_uri_complete"], "deny")
    with pytest.raises(OAuth2Error) as refused:
        poll(session, metadata, device)
    assert refused.value.error == "access_denied"


def test_the_body_may_be_json_as_the_first_clients_sent_it(demo):
    client_id = demo.client("cli")["client_id"]
    body = {"client_id": client_id, "org": demo.says["organization"]["slug"], "service": demo.says["services"]["cli"]}
    answer = requests.post(f"{demo.issuer}/auth/device/code", json=body, timeout=15)
    assert answer.status_code == 200, answer.text
    grant = {
        "grant_type": "urn:ietf:params:oauth:grant-type:device_code",
        "client_id": client_id,
        "device_code": answer.json()["device_code"],
    }
    pending = requests.post(f"{demo.issuer}/auth/token", json=grant, timeout=15)
    assert (pending.status_code, pending.json()["error"]) == (400, "authorization_pending")

    wrong = requests.post(f"{demo.issuer}/auth/device/code", json=dict(body, org="nobody"), timeout=15)
    assert wrong.status_code in (400, 401), "an organization that is not the client's is refused"
