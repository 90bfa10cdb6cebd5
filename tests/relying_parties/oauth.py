"""A sign-in by hand, for tests that need the tokens themselves."""

from urllib.parse import parse_qs, urlencode, urlsplit

import requests


def access_token(demo, client, person):
    """The access token that a client gets when a user signs in."""
    return tokens(demo, client, person, "openid")["access_token"]


def tokens(demo, client, person, scope):
    """What a client gets when a user signs in."""
    callback = client["redirect_uris"][0]
    query = {
        "response_type": "code",
        "client_id": client["client_id"],
        "redirect_uri": callback,
        "scope": scope,
    }
    answer = person.walk(f"{demo.issuer}/auth/authorize?{urlencode(query)}", until=callback)
    fields = {
        "grant_type": "authorization_code",
        "redirect_uri": callback,
        "code": parse_qs(urlsplit(answer).query)["code"][0],
    }
    answer = post(demo, client, "token", fields)
    assert answer.ok, answer.text
    return answer.json()


def post(demo, client, endpoint, fields):
    """A request of a confidential client."""
    credentials = (client["client_id"], client["client_secret"])
    return requests.post(f"{demo.issuer}/auth/{endpoint}", data=fields, auth=credentials, timeout=15)
