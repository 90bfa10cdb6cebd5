"""Authlib, and a person without JavaScript: authorization code with PKCE, by a confidential and a public client."""

from urllib.parse import parse_qsl, urlsplit

import pytest
import requests
from authlib.common.security import generate_token
from authlib.integrations.base_client.errors import OAuthError
from authlib.integrations.requests_client import OAuth2Session
from joserfc import jwt
from joserfc.jwk import KeySet
from person import Person, look

SCOPE = "openid profile email offline_access"


def new_session(demo, name):
    client = demo.client(name)
    return OAuth2Session(
        client["client_id"],
        client.get("client_secret"),
        token_endpoint_auth_method="client_secret_basic" if "client_secret" in client else "none",
        scope=SCOPE,
        redirect_uri=client["redirect_uris"][0],
        code_challenge_method="S256",
    )


def ask(demo, metadata, session, decision):
    """ada goes where a client sends her, and decides; the address she is sent back to, and what checks it."""
    verifier, nonce = generate_token(48), generate_token(20)
    address, state = session.create_authorization_url(
        metadata["authorization_endpoint"], code_verifier=verifier, nonce=nonce, prompt="consent"
    )
    ada = demo.user("ada")
    person = Person(ada["email"], ada["password"])
    answer = person.walk(address, decision=decision, until=session.redirect_uri)
    assert isinstance(answer, str), f"she should be sent to {session.redirect_uri} after {person.steps}: {look(answer)}"
    return answer, person.steps, {"verifier": verifier, "nonce": nonce, "state": state}


def sign_in(demo, metadata, name):
    session = new_session(demo, name)
    answer, steps, checks = ask(demo, metadata, session, "allow")
    assert steps == ["password", "allow"]
    tokens = session.fetch_token(
        metadata["token_endpoint"],
        authorization_response=answer,
        state=checks["state"],
        code_verifier=checks["verifier"],
        timeout=15,
    )
    return session, tokens, checks["nonce"]


@pytest.mark.parametrize("name", ["web", "spa"])
def test_code_with_pkce(demo, metadata, name):
    session, tokens, nonce = sign_in(demo, metadata, name)

    keys = KeySet.import_key_set(requests.get(metadata["jwks_uri"], timeout=15).json())
    claims = jwt.decode(tokens["id_token"], keys, algorithms=["RS256"]).claims
    assert claims["iss"] == demo.issuer
    assert claims["aud"] in (demo.client(name)["client_id"], [demo.client(name)["client_id"]])
    assert claims["nonce"] == nonce

    user = session.get(metadata["userinfo_endpoint"], timeout=15).json()
    assert user["sub"] == claims["sub"]
    assert user["email"] == demo.user("ada")["email"]

    subscription = session.get(f"{demo.issuer}/api/subscription", timeout=15)
    assert subscription.status_code == 200, subscription.text
    assert subscription.json()["service"] == demo.says["services"]["web"]


def test_refresh_and_revoke(demo, metadata):
    session, tokens, _ = sign_in(demo, metadata, "web")
    renewed = session.refresh_token(metadata["token_endpoint"], refresh_token=tokens["refresh_token"], timeout=15)
    assert renewed["refresh_token"] != tokens["refresh_token"]

    answer = session.revoke_token(metadata["revocation_endpoint"], token=renewed["refresh_token"], timeout=15)
    assert answer.status_code == 200, answer.text
    with pytest.raises(OAuthError) as refused:
        session.refresh_token(metadata["token_endpoint"], refresh_token=renewed["refresh_token"], timeout=15)
    assert refused.value.error == "invalid_grant"


def test_denial(demo, metadata):
    session = new_session(demo, "spa")
    answer, _, checks = ask(demo, metadata, session, "deny")
    said = dict(parse_qsl(urlsplit(answer).query))
    assert said["error"] == "access_denied", answer
    assert said["state"] == checks["state"]
    assert said["iss"] == demo.issuer
    assert "code" not in said
