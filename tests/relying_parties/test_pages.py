"""What docs/api.md and docs/operate say: answers, revocations, everyday tasks."""

import json

import pytest
import requests
from demo import ROOT
from guide import blocks_of
from oauth import access_token, post, tokens
from person import Person
from shape import assert_shape


@pytest.fixture
def site_client(api):
    return api.create_client("http://localhost:1/callback")


def test_the_answers_on_the_page_are_those_of_the_server(demo, site_client, ada):
    samples = {
        block.section.strip("`"): block
        for block in blocks_of((ROOT / "docs/api.md").read_text(encoding="utf-8"))
        if block.language == "json" and "checks" not in block.text
    }
    token = access_token(demo, site_client, ada)
    user = get(demo, "/api/user", token)
    pair = {"user": user.json()["id"], "feature": "history"}
    key = demo.says["api_key"]
    answers = {
        "GET /api/user": user,
        "GET /api/subscription": get(demo, "/api/subscription", token),
        "GET /api/service/state": get(demo, "/api/service/state", key),
        "GET /api/service/users": get(demo, f"/api/service/users?ids={pair['user']}", key),
        "POST /api/service/check": requests.post(
            f"{demo.issuer}/api/service/check", json={"checks": [pair]}, headers=bearer(key), timeout=15
        ),
    }
    assert sorted(samples) == sorted(answers)
    for route, answer in answers.items():
        assert answer.status_code == 200, answer.text
        sample, body = json.loads(samples[route].text), answer.json()
        # Other tests have made more users, and may have revoked sessions.
        for part in {"users", "revoked"} & body.keys() if "state" in route else ():
            count = min(len(sample[part]), len(body[part]))
            sample[part], body[part] = sample[part][:count], body[part][:count]
        assert_shape(sample, body)
        # What the section "Cache" says.
        assert "cache-control" not in answer.headers and answer.headers["sarsen-version"]
    for path in ["openid-configuration", "jwks.json"]:
        answer = requests.get(f"{demo.issuer}/.well-known/{path}", timeout=15)
        assert answer.headers["cache-control"] == "public, max-age=300"
    refused = get(demo, "/api/user", "nothing")
    assert (refused.status_code, refused.headers["cache-control"]) == (401, "no-store")


def test_the_everyday_tasks(own_demo, reader):
    reader.run('export PATH="$PWD/target/release:$PATH"')
    reader.run(f"sarsen login --server {own_demo.issuer}")
    [organization] = reader.blocks("operate/tasks", "Everyday tasks")
    reader.run(organization.text)
    reader.follow("operate/tasks", "A user")
    assert "/password?token=" in reader.printed("link")
    assert "grace@acme.test" not in reader.run("sarsen user list")
    assert "admin@acme.test" in reader.follow("operate/tasks", "Administrators")
    reader.follow("operate/tasks", "Secrets")
    assert len(reader.run("sarsen client secret list $CLIENT | tail -n +2").splitlines()) == 1
    assert "second key" in reader.run("sarsen key list")
    assert "export, history" in reader.follow("operate/tasks", "Plans")
    audit = reader.follow("operate/tasks", "What has happened")
    assert "plan.change" in audit, audit
    # The last section is for the machine of a server with a configuration: `test_a_server_by_its_guide`.


def test_the_page_is_right_about_revocations(own_demo, reader):
    issuer, client, key = own_demo.issuer, own_demo.client("web"), own_demo.says["api_key"]
    reader.run('export PATH="$PWD/target/release:$PATH" SARSEN_ORG=acme')
    reader.run(f"sarsen login --server {issuer}")
    for what in ["sign out", "sessions", "suspend", "revoke", "delete"]:
        grace = Person(own_demo.user("grace")["email"], own_demo.user("grace")["password"])
        got = tokens(own_demo, client, grace, "openid offline_access")
        access, refresh = got["access_token"], got["refresh_token"]
        assert get(own_demo, "/api/user", access).json()["plan"] == "free"
        if what == "sign out":
            grace.session.get(f"{issuer}/auth/logout", params={"id_token_hint": got["id_token"]}, timeout=15)
        elif what == "revoke":
            assert post(own_demo, client, "revoke", {"token": refresh}).ok
        else:
            reader.run(f"sarsen user {what} grace@acme.test {'--end' if what == 'sessions' else ''}")
        refused = get(own_demo, "/api/user", access)
        assert (refused.status_code, refused.json()["code"]) == (401, "invalid_token"), what
        refused = post(own_demo, client, "token", {"grant_type": "refresh_token", "refresh_token": refresh})
        assert (refused.status_code, refused.json()["error"]) == (400, "invalid_grant"), what
        if what == "suspend":
            reader.run("sarsen user activate grace@acme.test")

    ada = Person(own_demo.user("ada")["email"], own_demo.user("ada")["password"])
    access = access_token(own_demo, client, ada)
    reader.run("sarsen subscription change --user ada@acme.test --plan starter")
    assert get(own_demo, "/api/subscription", access).json()["plan"] == "starter"
    ids = f"/api/service/users?ids={get(own_demo, '/api/user', access).json()['id']}"
    assert get(own_demo, ids, key).status_code == 200
    reader.run("sarsen key list")
    reader.run(f"sarsen key revoke {reader.printed_from('apikey_')}")
    refused = get(own_demo, ids, key)
    assert (refused.status_code, refused.json()["code"]) == (401, "invalid_token")


def get(demo, path, token):
    return requests.get(f"{demo.issuer}{path}", headers=bearer(token), timeout=15)


def bearer(token):
    return {"Authorization": f"Bearer {token}"}
