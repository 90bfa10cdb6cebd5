"""The site: its routes. Who is signed in, and what they may use, is asked of Sarsen in `sarsen.py`."""

import asyncio
import logging
from contextlib import asynccontextmanager

import httpx2
import uvicorn
from authlib.integrations.base_client import OAuthError
from fastapi import FastAPI, Request, Response
from fastapi.responses import RedirectResponse, StreamingResponse
from fastapi.staticfiles import StaticFiles
from fastapi.templating import Jinja2Templates
from starlette.exceptions import HTTPException
from starlette.middleware.sessions import SessionMiddleware

import sarsen
from sessions import Sessions
from settings import settings

POLICY = (
    "default-src 'none'; connect-src 'self'; img-src data:; script-src 'self'; style-src 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)


@asynccontextmanager
async def lifespan(_site):
    yield
    await sarsen.api.aclose()


site = FastAPI(lifespan=lifespan, openapi_url=None)
pages = Jinja2Templates("pages")
sessions = Sessions("sessions.db")
log = logging.getLogger("uvicorn.error")

site.mount("/public", StaticFiles(directory="public"), name="public")


@site.get("/")
async def home(request: Request):
    token = await signed_in(request)
    if token is None:
        return pages.TemplateResponse(request, "welcome.html")
    user, subscription = await asyncio.gather(sarsen.user(token), sarsen.subscription(token))
    return pages.TemplateResponse(request, "home.html", {"user": user, "subscription": subscription})


@site.get("/export")
async def export(request: Request):
    """A part of the product that not every plan has. The page hides its button, and this decides."""
    token = await signed_in(request)
    if token is None:
        return RedirectResponse("/", 303)
    subscription = await sarsen.subscription(token)
    if "export" not in subscription["features"]:
        return error_page(request, 403, "Your plan has no export", "Plans with the feature “export” have it.")
    headers = {"Content-Disposition": 'attachment; filename="export.csv"'}
    return Response("name,made\nFirst drawing,2026-01-31\n", media_type="text/csv", headers=headers)


@site.get("/events")
async def events(request: Request):
    """The events of the signed-in user, for the page that is open: Sarsen's own stream, passed on.

    It ends with its access token, and the browser comes back by itself.
    """
    try:
        token = await signed_in(request)
        if token is None:
            raise sarsen.SignInEnded
        stream = await sarsen.events(token)
    except sarsen.SignInEnded:
        return Response("event: session.revoked\ndata: {}\n\n", media_type="text/event-stream")
    headers = {"X-Accel-Buffering": "no"}  # A proxy must not keep it back.
    return StreamingResponse(passed_on(stream), media_type="text/event-stream", headers=headers)


async def passed_on(stream):
    try:
        async for part in stream.aiter_bytes():
            yield part
    except httpx2.TransportError as error:
        log.info("the stream of a user was interrupted: %r", error)
    finally:
        await stream.aclose()


@site.get("/login")
async def login(request: Request):
    request.session.clear()  # What is left of sign-ins that were not finished.
    return await sarsen.oauth.sarsen.authorize_redirect(request, f"{settings.base_url}/callback")


@site.get("/callback")
async def callback(request: Request):
    try:
        token = await sarsen.oauth.sarsen.authorize_access_token(request)
    except OAuthError as error:
        log.info("a sign-in was refused: %r", str(error))
        why = "You did not allow it." if error.error == "access_denied" else "It was not finished, or took too long."
        return error_page(request, 400, "The sign-in did not work", why)
    request.session.clear()
    request.session["id"] = sessions.begin(token)
    return RedirectResponse("/", 303)


@site.post("/logout")
async def logout(request: Request):
    """By a form, because a link can be followed by accident. The cookie is not sent with forms of other sites."""
    token = end_session(request)
    if token is None:
        return RedirectResponse("/", 303)
    answer = await sarsen.oauth.sarsen.logout_redirect(request, f"{settings.base_url}/", token["id_token"])
    request.session.clear()  # Of the state of a sign-out nothing is expected.
    answer.status_code = 303
    return answer


async def signed_in(request: Request):
    """The user's tokens. None when nobody is signed in."""
    session = request.session.get("id")
    token = session and sessions.token(session)
    if not token:
        return None
    fresh = await sarsen.renewed(token)
    if fresh is not token:
        sessions.renew(session, fresh)
    return fresh


def end_session(request: Request):
    """Ends the session of the browser, and gives the tokens that it had."""
    session = request.session.pop("id", None)
    token = session and sessions.token(session)
    if session:
        sessions.end(session)
    return token


def error_page(request: Request, status, title, text):
    context = {"title": title, "text": text}
    return pages.TemplateResponse(request, "error.html", context, status_code=status)


@site.exception_handler(sarsen.SignInEnded)
async def sign_in_ended(request: Request, _error):
    """It has ended at Sarsen, so it ends here."""
    end_session(request)
    return RedirectResponse("/", 303)


@site.exception_handler(httpx2.HTTPError)
async def sarsen_failed(request: Request, error):
    log.error("Sarsen at %s: %r", settings.oidc_issuer, error)
    return error_page(request, 503, "Something failed", "The log of the site says what. Try again in a moment.")


@site.exception_handler(Exception)
async def failed(request: Request, _error):
    return error_page(request, 500, "Something failed", "The log of the site says what.")


@site.exception_handler(HTTPException)
async def refused(request: Request, error):
    title = "There is no such page" if error.status_code == 404 else "That is not possible here"
    return error_page(request, error.status_code, title, "Check the address.")


@site.middleware("http")
async def with_headers(request: Request, proceed):
    answer = await proceed(request)
    answer.headers["Content-Security-Policy"] = POLICY
    answer.headers["Referrer-Policy"] = "no-referrer"
    answer.headers["X-Content-Type-Options"] = "nosniff"
    if not request.url.path.startswith("/public/"):
        answer.headers["Cache-Control"] = "no-store"
    return answer


# A signed cookie with the id of the session: HttpOnly, SameSite=Lax, and Secure when the site has an https address.
site.add_middleware(
    SessionMiddleware,
    secret_key=settings.session_secret,
    session_cookie="__Host-session" if settings.is_https else "session",
    https_only=settings.is_https,
    max_age=7 * 24 * 3600,
)


if __name__ == "__main__":
    # Starts anew when a file changes. Open streams must not hold that up.
    uvicorn.run(
        "main:site",
        host=settings.host,
        port=settings.port,
        reload=settings.is_local,
        timeout_graceful_shutdown=1,
    )
