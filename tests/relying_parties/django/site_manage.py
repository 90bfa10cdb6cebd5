"""A Django site in one file, with the settings of mozilla-django-oidc's installation guide."""

import os
import sys

from django.conf import settings
from django.core.management import execute_from_command_line
from django.http import HttpResponse
from django.urls import include, path

ISSUER = os.environ["SITE_ISSUER"]

settings.configure(
    DEBUG=True,
    SECRET_KEY="a key of the test",
    ALLOWED_HOSTS=["localhost"],
    ROOT_URLCONF=__name__,
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": os.environ["SITE_DATABASE"]}},
    INSTALLED_APPS=[
        "django.contrib.auth",
        "django.contrib.contenttypes",
        "django.contrib.sessions",
        "mozilla_django_oidc",
    ],
    MIDDLEWARE=[
        "django.contrib.sessions.middleware.SessionMiddleware",
        "django.middleware.csrf.CsrfViewMiddleware",
        "django.contrib.auth.middleware.AuthenticationMiddleware",
    ],
    AUTHENTICATION_BACKENDS=["mozilla_django_oidc.auth.OIDCAuthenticationBackend"],
    OIDC_RP_CLIENT_ID=os.environ["SITE_CLIENT_ID"],
    OIDC_RP_CLIENT_SECRET=os.environ["SITE_CLIENT_SECRET"],
    OIDC_RP_SIGN_ALGO="RS256",
    OIDC_OP_JWKS_ENDPOINT=f"{ISSUER}/.well-known/jwks.json",
    OIDC_OP_AUTHORIZATION_ENDPOINT=f"{ISSUER}/auth/authorize",
    OIDC_OP_TOKEN_ENDPOINT=f"{ISSUER}/auth/token",
    OIDC_OP_USER_ENDPOINT=f"{ISSUER}/auth/userinfo",
    LOGIN_REDIRECT_URL="/",
    LOGOUT_REDIRECT_URL="/",
)


def home(request):
    return HttpResponse(request.user.email if request.user.is_authenticated else "nobody")


urlpatterns = [path("", home), path("oidc/", include("mozilla_django_oidc.urls"))]

if __name__ == "__main__":
    execute_from_command_line(sys.argv)
