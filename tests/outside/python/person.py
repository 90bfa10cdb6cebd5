"""A person with a browser that has no JavaScript: follows pages and fills in their forms.

It knows the names of fields that the protocol page promises (email, password, user_code, decision) and sends
back every hidden field as it came, so it needs to know nothing of how CSRF is kept out.
"""

from html.parser import HTMLParser
from urllib.parse import urljoin

import requests

STEPS_MAX = 8


class Form:
    def __init__(self, attributes):
        self.action = attributes.get("action") or ""
        self.method = (attributes.get("method") or "get").lower()
        self.fields = {}
        self.buttons = []

    def asks_for(self, name):
        return name in self.fields or any(button == name for button, _ in self.buttons)


class _Forms(HTMLParser):
    def __init__(self):
        super().__init__()
        self.forms = []
        self._open = None

    def handle_starttag(self, tag, pairs):
        attributes = dict(pairs)
        if tag == "form":
            self._open = Form(attributes)
            self.forms.append(self._open)
        if self._open is None or not attributes.get("name"):
            return
        kind = attributes.get("type") or "text"
        if tag == "button" or (tag == "input" and kind == "submit"):
            self._open.buttons.append((attributes["name"], attributes.get("value") or ""))
        elif tag == "input" and (kind not in ("checkbox", "radio") or "checked" in attributes):
            self._open.fields[attributes["name"]] = attributes.get("value") or ""

    def handle_endtag(self, tag):
        if tag == "form":
            self._open = None


def forms_of(html):
    parser = _Forms()
    parser.feed(html)
    return parser.forms


class Person:
    """One browser with its cookies. Each answer must come within `limit_s`."""

    def __init__(self, email, password, limit_s=15):
        self.answers = {"email": email, "password": password}
        self.session = requests.Session()
        self.steps = []
        self.limit_s = limit_s

    def walk(self, address, decision="allow", user_code=None, until=None):
        """Opens an address and answers what pages ask, up to the decision or to an address with this beginning.

        Gives the last answer of the server, or the address that a client would be sent to.
        """
        answer = self._open("get", address, until)
        while not isinstance(answer, str):
            if decision in self.steps and not any(form.asks_for("decision") for form in forms_of(answer.text)):
                return answer
            assert len(self.steps) < STEPS_MAX, f"still not there after {self.steps}: {look(answer)}"
            answer = self._answer(answer, decision, user_code, until)
        return answer

    def _answer(self, page, decision, user_code, until):
        forms = [form for form in forms_of(page.text) if form.method == "post"]
        for step in ("password", "decision", "user_code"):
            for form in forms:
                if form.asks_for(step):
                    self.steps.append(decision if form.asks_for("decision") else step)
                    return self._send(page, form, decision, user_code, until)
        raise AssertionError(f"after {self.steps} the page asks for nothing that a person could answer: {look(page)}")

    def _send(self, page, form, decision, user_code, until):
        fields = dict(form.fields)
        known = dict(self.answers, **({"user_code": user_code} if user_code else {}))
        fields.update({name: value for name, value in known.items() if name in fields})
        if form.asks_for("decision"):
            choices = [value for name, value in form.buttons if name == "decision"]
            assert decision in choices, f"one can {choices}, but not {decision}: {look(page)}"
            fields["decision"] = decision
        return self._open("post", urljoin(page.url, form.action), until, data=fields)

    def _open(self, method, address, until, **request):
        """Follows redirects one by one, and stops before it leaves for the client."""
        for _ in range(STEPS_MAX):
            if until and address.startswith(until):
                return address
            answer = self.session.request(method, address, allow_redirects=False, timeout=self.limit_s, **request)
            if not answer.is_redirect:
                return answer
            if method == "post":
                assert answer.status_code in (302, 303), f"{answer.status_code} would send the form again"
            method, address, request = "get", urljoin(answer.url, answer.headers["Location"]), {}
        raise AssertionError(f"more than {STEPS_MAX} redirects, the last to {address}")


def look(answer):
    """What a person sees, for messages."""
    forms = [(form.action, sorted(form.fields), form.buttons) for form in forms_of(answer.text)]
    return f"\n  {answer.status_code} {answer.url}\n  forms: {forms}\n  {answer.text[:600]}"
