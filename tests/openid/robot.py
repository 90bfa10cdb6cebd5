"""What the suite's browser does on the pages of Sarsen. It has no JavaScript, as the pages need none."""

# Modules that end at an error page of the authorization endpoint.
ERROR_PAGES = [
    "oidcc-ensure-registered-redirect-uri",
    "oidcc-ensure-request-object-with-redirect-uri",
    "oidcc-ensure-redirect-uri-in-authorization-request",
    "oidcc-redirect-uri-query-added",
    "oidcc-redirect-uri-query-mismatch",
]
# Modules in which the user must be seen to sign in again.
SIGN_INS = ["oidcc-prompt-login", "oidcc-max-age-1"]
# Modules in which a sign-out ends at a page of Sarsen, after a question or without one.
SIGN_OUT_PAGES = [
    f"oidcc-rp-initiated-logout-{name}"
    for name in (
        "bad-id-token-hint",
        "bad-post-logout-redirect-uri",
        "modified-id-token-hint",
        "no-id-token-hint",
        "no-params",
        "no-post-logout-redirect-uri",
        "only-state",
        "query-added-to-post-logout-redirect-uri",
    )
]
# The longest time that a page takes.
PAGE_S = 10


def click(selector, *options):
    return ["click", "css", selector, *options]


def see(text, *options):
    """Waits for a text. With `update-image-placeholder`, the page is what a person would be asked to look at."""
    return ["wait", "xpath", "//*", PAGE_S, text, *options]


class Robot:
    def __init__(self, issuer, user):
        self._authorize, self._logout, self._issuer = f"{issuer}/auth/authorize*", f"{issuer}/auth/logout*", issuer
        self._sign_in = [
            ["text", "name", "email", user["email"], "optional"],
            ["text", "name", "password", user["password"], "optional"],
            click("form button[type=submit], form button:not([type])"),
        ]

    def instructions(self):
        """For modules without instructions of their own."""
        done = {"task": "Done", "match": "*/test/*/post*"}
        return [self._authorization(self._sign_in), {"match": self._logout, "tasks": [self._confirmation(), done]}]

    def overrides(self):
        """For the others, by module."""
        seen_sign_in = [see("Sign in", "update-image-placeholder-optional"), *self._sign_in]
        shown = self._page(self._authorize, "This request does not work")
        error = [{"match": self._authorize, "tasks": [shown]}]
        sign_in = [self._authorization(seen_sign_in)]
        sign_out = [
            self._authorization(self._sign_in),
            {"match": self._logout, "tasks": [self._confirmation(), self._page(f"{self._issuer}/*", "Sarsen")]},
        ]
        kinds = [(ERROR_PAGES, error), (SIGN_INS, sign_in), (SIGN_OUT_PAGES, sign_out)]
        return {module: {"browser": browser} for modules, browser in kinds for module in modules}

    def _authorization(self, sign_in):
        tasks = [
            {"task": "Sign in", "optional": True, "match": f"{self._issuer}/o/acme/login*", "commands": sign_in},
            {
                "task": "Consent",
                "optional": True,
                "match": self._authorize,
                "commands": [click("button[name=decision][value=allow]")],
            },
            {
                "task": "Back at the client",
                "match": "*/test/*/callback*",
                "commands": [["wait", "id", "submission_complete", PAGE_S]],
            },
        ]
        return {"match": self._authorize, "tasks": tasks}

    def _confirmation(self):
        commands = [click("form button", "optional")]
        return {"task": "Sign out", "optional": True, "match": self._logout, "commands": commands}

    def _page(self, address, text):
        return {"task": "A page", "match": address, "commands": [see(text, "update-image-placeholder")]}
