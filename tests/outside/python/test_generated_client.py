"""A client that openapi-python-client generates from the server's own description sets up an organization."""

import pytest
import requests
from generated import package
from person import Person

DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"
# What `sarsen login` asks for: to administer the server and every organization of the user.
SCOPE = "openid email offline_access platform org:*"


@pytest.fixture(scope="module")
def sarsen(demo):
    with package("generated_sarsen", "--url", f"{demo.issuer}/api/openapi.json") as generated:
        yield generated


def owner_tokens(demo, metadata):
    """The owner of the server approves a terminal."""
    asked = {"client_id": "cli", "scope": SCOPE}
    device = requests.post(metadata["device_authorization_endpoint"], data=asked, timeout=15).json()
    owner = demo.says["owner"]
    person = Person(owner["email"], owner["password"])
    person.walk(device["verification_uri"], decision="allow", user_code=device["user_code"])
    fields = {"grant_type": DEVICE_GRANT, "device_code": device["device_code"]}
    return tokens(metadata, fields)


def tokens(metadata, fields):
    fields = {"client_id": "cli", **fields}
    answer = requests.post(metadata["token_endpoint"], data=fields, headers={"Prefer": "wait=10"}, timeout=30)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_it_sets_up_an_organization(demo, metadata, sarsen):
    owner = owner_tokens(demo, metadata)
    client = sarsen.client(demo.issuer, owner["access_token"])

    def call(tag, name, *place, **arguments):
        answer = sarsen.operation(tag, name)(*place, client=client, **arguments)
        assert answer.status_code in (200, 201), f"{name}: {answer.status_code} {answer.content}"
        return answer.parsed

    new = sarsen.CreateOrganization(slug="generated", name="Generated")
    organization = call("organizations", "create_organization", body=new)
    assert isinstance(organization, sarsen.Organization)
    assert (organization.slug, organization.status.value) == ("generated", "active")
    org = organization.slug

    # A token covers the organizations that the user had when it was issued.
    renewed = tokens(metadata, {"grant_type": "refresh_token", "refresh_token": owner["refresh_token"]})
    client = sarsen.client(demo.issuer, renewed["access_token"])
    service = call("services", "create_service", org, body=sarsen.CreateService(slug="sketch", name="Sketch"))
    web = call(
        "clients",
        "create_client",
        org,
        body=sarsen.CreateClient(
            service=service.slug,
            kind=sarsen.CreateClientKind.WEB,
            name="Website",
            redirect_uris=["https://sketch.example.com/callback"],
        ),
    )
    assert web.client_secret and web.redirect_uris == ["https://sketch.example.com/callback"]

    user = call("users", "create_user", org, body=sarsen.CreateUser(email="ada@example.com", name="Ada"))
    plan = call(
        "plans",
        "create_plan",
        org,
        body=sarsen.CreatePlan(
            slug="pro",
            name="Pro",
            services=[service.slug],
            price_cents=900,
            currency="EUR",
            features=["export"],
            limits=sarsen.CreatePlanLimits.from_dict({"projects": 10}),
        ),
    )
    assert plan.limits.to_dict() == {"projects": 10}

    # The same write twice, with one key, is one subscription.
    bought = sarsen.CreateSubscription(plan=plan.slug, user=user.id)
    first = call("subscriptions", "create_subscription", org, body=bought, idempotency_key="generated-1")
    again = call("subscriptions", "create_subscription", org, body=bought, idempotency_key="generated-1")
    assert first == again and first.status.value == "active" and first.user_email == "ada@example.com"
    assert first.created_at.tzinfo is not None

    refused = sarsen.operation("subscriptions", "create_subscription")(org, client=client, body=bought)
    assert isinstance(refused.parsed, sarsen.Problem)
    assert (refused.status_code, refused.parsed.code) == (409, "already_subscribed")

    found = call("subscriptions", "list_subscriptions", org, user=user.id, limit=1)
    assert [item.id for item in found.items] == [first.id] and found.next_ is None
