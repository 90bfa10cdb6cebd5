"""What the site asks Sarsen. The sign-in is Authlib's: with PKCE, state and nonce.

More about each answer: /api/docs of the server.
"""

import time

import httpx2
from authlib.integrations.base_client import OAuthError
from authlib.integrations.starlette_client import OAuth

from settings import settings

oauth = OAuth()
oauth.register(
    "sarsen",
    client_id=settings.oidc_client_id,
    client_secret=settings.oidc_client_secret,
    server_metadata_url=f"{settings.oidc_issuer}/.well-known/openid-configuration",
    client_kwargs={"scope": "openid profile email offline_access", "code_challenge_method": "S256"},
)

EXPIRES_SOON_S = 30

api = httpx2.AsyncClient(base_url=settings.oidc_issuer, timeout=10)


class SignInEnded(Exception):
    """The user signed out at Sarsen or at another product, or an administrator ended the session."""


async def renewed(token):
    """The tokens of a session: others in place of those that expire."""
    if token["expires_at"] > time.time() + EXPIRES_SOON_S:
        return token
    try:
        fresh = await oauth.sarsen.fetch_access_token(
            grant_type="refresh_token", refresh_token=token["refresh_token"]
        )
    except OAuthError as error:
        if error.error == "invalid_grant":
            raise SignInEnded from error
        raise
    return {**token, **fresh}


async def user(token):
    """Who the user is: `id`, `name`, `email` and more."""
    return await _ask("/api/user", token)


async def subscription(token):
    """What the user may use: `plan`, `features`, `limits` and more."""
    return await _ask("/api/subscription", token)


async def events(token):
    """The stream of what changes for the user, which begins with the whole state. It ends with its access token."""
    request = api.build_request("GET", "/api/live", headers=_authorized(token), timeout=httpx2.Timeout(10, read=30))
    answer = await api.send(request, stream=True)
    if answer.status_code != 200:
        await answer.aread()
    return _checked(answer)


async def _ask(path, token):
    return _checked(await api.get(path, headers=_authorized(token))).json()


def _authorized(token):
    return {"Authorization": f"Bearer {token['access_token']}"}


def _checked(answer):
    if answer.status_code == 401:
        raise SignInEnded
    return answer.raise_for_status()
