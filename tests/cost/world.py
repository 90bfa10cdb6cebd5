"""Who asks, and the ordinary request of each route."""

import hashlib
import hmac
import re
import time
from pathlib import Path
from urllib.parse import parse_qs, urlencode, urlsplit

import requests
from console import token_of
from person import Person, forms_of
from wire import LIMIT_S, Request

CRATES = Path(__file__).resolve().parents[2] / "crates"
ROUTER = CRATES / "server/src/router.rs"
OPERATIONS = CRATES / "api/src"
FORM = "application/x-www-form-urlencoded"
JSON = "application/json"
VERIFIER = "a-verifier-that-is-long-enough-for-RFC-7636"
CHALLENGE = "RlBsjzfF_69KXimd4t6uQgY-XB_zMcle7JB6a7qsvRs"
# Pages that the owner of the server opens. Ada opens the others.
OWNERS = ("/console", "/login", "/setup", "/password")
# With what the payment provider signs.
SECRET = "whsec_" + "s" * 32
DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"


def routes():
    """Methods and paths of the table of routes, and of the tables of operations."""
    found = []
    for entry in ROUTER.read_text(encoding="utf-8").split(".route(")[1:]:
        path, handlers = re.match(r'\s*"([^"]+)"(.*)', entry, re.DOTALL).groups()
        methods = re.findall(r"\b(get|post|put|patch|delete)\(\w+::", handlers.split("// ")[0])
        found += [(method.upper(), path) for method in methods]
    for noun in sorted(OPERATIONS.glob("*.rs")):
        entries = re.findall(r': (Get|Post|Put|Patch|Delete) "([^"]+)"', noun.read_text(encoding="utf-8"))
        found += [(method.upper(), path) for method, path in entries]
    assert len(found) > 80, found
    return found


class World:
    def __init__(self, demo):
        self.demo, self.issuer = demo, demo.issuer
        self.port = urlsplit(demo.issuer).port
        self.count = 0
        ada = demo.user("ada")
        self.ada = Person(ada["email"], ada["password"], LIMIT_S)
        self.ada.walk(f"{self.issuer}/auth/authorize?{urlencode(self.ask())}", until=self.ask()["redirect_uri"])
        self.owner = Person(demo.says["owner"]["email"], demo.says["owner"]["password"], LIMIT_S)
        # Whom `/auth/logout` signs out.
        grace = demo.user("grace")
        self.grace = Person(grace["email"], grace["password"], LIMIT_S)
        self.grace.walk(f"{self.issuer}/auth/authorize?{urlencode(self.ask())}", until=self.ask()["redirect_uri"])
        login = demo.says["organization"]["admin"]
        administrator = Person(login["email"], login["password"], LIMIT_S)
        self.admin_token = token_of(demo, administrator, "org:acme platform")
        self.owner_token = token_of(demo, self.owner, "platform")
        self.token, self.revoked = self.token_of_ada(), self.token_of_ada()
        self.csrf = csrf_of(self.ada, f"{self.issuer}/o/acme/account")
        self.owner_csrf = csrf_of(self.owner, f"{self.issuer}/console")
        self.things = self.look()

    def ask(self):
        """An authorization request of the client `web`."""
        return {
            "response_type": "code",
            "client_id": self.demo.client("web")["client_id"],
            "redirect_uri": self.demo.client("web")["redirect_uris"][0],
            "scope": "openid profile email",
            "state": "the-state",
            "nonce": "the-nonce",
            "code_challenge": CHALLENGE,
            "code_challenge_method": "S256",
        }

    def ordinary(self, method, route):
        """The ordinary request of a route. What it creates has a new name each time."""
        self.count += 1
        request = Request(method, self.path(method, route))
        if route.startswith("/api/"):
            tokens = {
                "subscription": self.token,
                "user": self.token,
                "service": self.demo.says["api_key"],
                "platform": self.owner_token,
            }
            token = tokens.get(route.split("/")[2], self.admin_token)
            request = request.with_header("authorization", f"Bearer {token}")
            if method in ("POST", "PUT", "PATCH"):
                request = request.with_body(self.document(method, route), JSON)
            return request
        if route == "/auth/userinfo":
            return request.with_header("authorization", f"Bearer {self.token}")
        if route.startswith("/webhooks/"):
            # Events of a payment provider have some kilobytes.
            event = {"id": f"evt_{self.count}", "type": "made", "livemode": True, "data": {"description": "a" * 4096}}
            return signed(request.with_body(event, JSON))
        is_for_programs = route.startswith(("/auth/", "/.well-known/", "/healthz", "/readyz", "/metrics"))
        if not is_for_programs or route in ("/auth/authorize", "/auth/logout"):
            person = self.owner if route in OWNERS else self.grace if route == "/auth/logout" else self.ada
            cookies = "; ".join(f"{cookie.name}={cookie.value}" for cookie in person.session.cookies)
            request = request.with_header("cookie", cookies)
        return request if method == "GET" else request.with_body(self.form(route), FORM)

    def form(self, route):
        web = self.demo.client("web")
        client = [("client_id", web["client_id"]), ("client_secret", web["client_secret"])]
        csrf = [("csrf", self.owner_csrf if route in OWNERS else self.csrf)]
        return {
            "/auth/authorize": list(self.ask().items()),
            "/auth/device/code": [("client_id", self.demo.client("cli")["client_id"]), ("scope", "openid email")],
            "/auth/token": [
                ("grant_type", DEVICE_GRANT),
                ("client_id", self.demo.client("cli")["client_id"]),
                ("device_code", self.things["device_code"]),
            ],
            "/auth/revoke": [*client, ("token", self.revoked)],
            "/auth/introspect": [*client, ("token", self.token)],
            "/auth/logout": [("client_id", web["client_id"]), ("id_token_hint", "none"), ("state", "x")],
            "/activate": [*csrf, ("user_code", self.things["user_code"])],
            "/consent": [*csrf, ("next", f"/auth/authorize?{urlencode(self.ask())}"), ("decision", "deny")],
            "/o/{slug}/login": [*csrf, ("next", "/o/acme/account"), ("email", "ada@acme.test"), ("password", "")],
            "/login": [*csrf, ("next", "/console"), ("email", "owner@sarsen.test"), ("password", "")],
            "/o/{slug}/signup": [*csrf, ("name", "Ada"), ("email", "x@acme.test"), ("password", "short")],
            "/o/{slug}/account/password": [*csrf, ("password", ""), ("new_password", "short")],
            "/o/{slug}/account/sessions": [*csrf, ("end", "none")],
            "/o/{slug}/link": [*csrf, ("link", "none")],
            "/o/{slug}/logout": [("csrf", "none"), ("next", "/o/acme/account")],
            "/password": [*csrf, ("link", "none"), ("password", "short")],
            "/setup": [*csrf, ("link", "none"), ("email", "x@y.test"), ("name", "Ada"), ("password", "short")],
            "/invitation": [*csrf, ("invitation", "none"), ("name", "Ada"), ("password", "short")],
        }.get(route, csrf)

    def document(self, method, route):
        """A body that a route takes; of a route that is not in this table, an object without fields."""
        plan = {"features": ["export", "share"], "limits": {"projects": 3}, "name": "Made", "price_cents": 1}
        client = {"name": "Made", "redirect_uris": ["https://app.example/a"], "pkce": "required"}
        client["post_logout_redirect_uris"] = ["https://app.example/b"]
        slug = f"made-{self.count}"
        user = self.things["user"]
        return {
            ("PATCH", ""): {"name": "Acme", "device_flow": "allowed"},
            ("PATCH", "/administrators/{user}"): {"role": "owner"},
            ("POST", "/invitations"): {"email": f"{slug}@acme.test", "role": "member"},
            ("POST", "/services"): {"slug": slug, "name": "Made"},
            ("PATCH", "/services/{service}"): {"name": "Sketch"},
            ("POST", "/clients"): {"service": "sketch", "kind": "web", **client},
            ("PATCH", "/clients/{client}"): client,
            ("POST", "/plans"): {"slug": slug, "services": ["sketch"], "currency": "EUR", **plan},
            ("PATCH", "/plans/{plan}"): plan,
            ("POST", "/subscriptions"): {"user": user, "plan": "none", "current_period_end": "2030-01-01T00:00:00Z"},
            ("PATCH", "/subscriptions/{subscription}"): {"status": "active"},
            ("POST", "/keys"): {"name": "Made", "service": "none", "scopes": ["users:read"]},
            ("POST", "/users"): {"email": f"{slug}@acme.test", "name": "Made"},
            ("PATCH", "/users/{user}"): {"name": "Ada"},
            ("PUT", "/users/{user}/suspension"): {"reason": "because"},
            ("POST", "/api/organizations"): {"slug": slug, "name": "Made"},
            ("POST", "/api/platform/owners"): {"email": f"{slug}@acme.test"},
            ("POST", "/billing"): {"name": "Made", "livemode": True, "secret": SECRET},
            ("PATCH", "/billing/{connection}"): {"name": "Made", "secret": SECRET},
            ("PUT", "/billing/{connection}/prices/{price}"): {"plan": "pro"},
            ("PUT", "/billing/{connection}/customers/{billing_customer}"): {"user": user},
            ("POST", "/billing/{connection}/references"): {"user": user},
            ("POST", "/api/platform/organizations/{org}/review"): {"decision": "approved"},
            ("PUT", "/api/platform/organizations/{org}/suspension"): {"reason": "because"},
            ("POST", "/api/service/check"): {"checks": [{"user": user, "feature": f"f{n}"} for n in range(25)]},
        }.get((method, route.removeprefix("/api/organizations/{org}")), {})

    def path(self, method, route):
        """A path of this route. Nothing that later requests need is deleted or suspended by it."""
        if route == "/demo/{product}/callback":
            # With a code, for the sign-in that the browser's cookie names.
            address = f"{self.issuer}/demo/sketch/"
            return self.ada.walk(f"{address}login", until=f"{address}callback").removeprefix(self.issuer)
        org = "acme"
        if "/platform/" in route or (method == "DELETE" and route in ("/api/organizations/{org}", "/{org}/deletion")):
            org = "nobody"
        things = dict(self.things, org=org, slug="acme", product="sketch")
        if method == "DELETE" or route.endswith(("/suspension", "/administrators/{user}")):
            things.update({name: re.sub(r"_\w+$", "_00000000000000000000000000", value) for name, value in things.items()})
            things.update(service="none", plan="none")
        path = re.sub(r"{(\w+)}", lambda found: things[found[1]], route)
        query = {
            "/auth/authorize": urlencode(self.ask()),
            "/api/service/users": f"ids={self.things['user']}",
            "/activate": f"user_code={self.things['user_code']}",
        }.get(route)
        return f"{path}?{query}" if query and method == "GET" else path

    def look(self):
        """What the organization has, one of each kind."""

        def first(path, name="id"):
            address = f"{self.issuer}/api/organizations/acme/{path}"
            answer = requests.get(address, headers={"authorization": f"Bearer {self.admin_token}"}, timeout=LIMIT_S)
            assert answer.ok, answer.text
            return answer.json()["items"][0][name]

        user = first("users?email=ada@acme.test")
        connection = requests.post(
            f"{self.issuer}/api/organizations/acme/billing",
            json={"name": "Made", "livemode": True, "secret": SECRET},
            headers={"authorization": f"Bearer {self.admin_token}"},
            timeout=LIMIT_S,
        ).json()
        client = self.demo.client("web")["client_id"]
        codes = {"client_id": self.demo.client("cli")["client_id"]}
        codes = requests.post(f"{self.issuer}/auth/device/code", data=codes, timeout=LIMIT_S).json()
        return {
            "user": user,
            "client": client,
            "service": "sketch",
            "plan": "pro",
            "secret": first(f"clients/{client}/secrets"),
            "subscription": first("subscriptions"),
            "session": first(f"users/{user}/sessions"),
            "key": first("keys"),
            "invitation": "invitation_00000000000000000000000000",
            "connection": connection["id"],
            "price": "price_1",
            "billing_customer": "cus_1",
            "device_code": codes["device_code"],
            "user_code": codes["user_code"],
        }

    def wait_for_keys(self):
        """The RSA key is made in the background, which takes long."""
        while len(requests.get(f"{self.issuer}/.well-known/jwks.json", timeout=LIMIT_S).json()["keys"]) < 2:
            time.sleep(0.2)

    def token_of_ada(self):
        ask, web = self.ask(), self.demo.client("web")
        callback = self.ada.walk(f"{self.issuer}/auth/authorize?{urlencode(ask)}", until=ask["redirect_uri"])
        fields = {
            "grant_type": "authorization_code",
            "code": parse_qs(urlsplit(callback).query)["code"][0],
            "redirect_uri": ask["redirect_uri"],
            "code_verifier": VERIFIER,
        }
        credentials = (web["client_id"], web["client_secret"])
        tokens = requests.post(f"{self.issuer}/auth/token", data=fields, auth=credentials, timeout=LIMIT_S)
        assert tokens.ok, tokens.text
        return tokens.json()["access_token"]


def signed(request):
    """The event as Stripe signs it."""
    at = int(time.time())
    content = f"{at}.".encode() + request.payload()
    signature = hmac.new(SECRET.encode(), content, hashlib.sha256).hexdigest()
    return request.with_header("stripe-signature", f"t={at},v1={signature}")


def csrf_of(person, address):
    """What the forms of this person's browser send back."""
    page = person.session.get(address, timeout=LIMIT_S)
    return next(form.fields["csrf"] for form in forms_of(page.text) if "csrf" in form.fields)
