"""What a page offers to click: its links, and the buttons of its forms."""

from html.parser import HTMLParser
from urllib.parse import urljoin

LIMIT_S = 30


class _Offers(HTMLParser):
    def __init__(self):
        super().__init__()
        self.links = {}
        self.forms = {}
        self._link = None
        self._form = None
        self._button = False
        self._text = ""

    def handle_starttag(self, tag, pairs):
        attributes = dict(pairs)
        if tag == "a":
            self._link, self._text = attributes.get("href"), ""
        elif tag == "form":
            self._form = (attributes.get("method") or "get", attributes.get("action") or "", {})
        elif tag == "button":
            self._button, self._text = True, ""
        elif tag == "input" and self._form and attributes.get("name"):
            self._form[2][attributes["name"]] = attributes.get("value") or ""

    def handle_data(self, data):
        self._text += data

    def handle_endtag(self, tag):
        if tag == "a" and self._link is not None:
            self.links[self._text.strip()], self._link = self._link, None
        elif tag == "button" and self._button and self._form:
            self.forms[self._text.strip()], self._button = self._form, False
        elif tag == "form":
            self._form = None


def _offers(page):
    parser = _Offers()
    parser.feed(page.text)
    return parser


def address_of(page, label):
    """Where a link leads to."""
    links = _offers(page).links
    assert label in links, f"no link {label!r}, but {sorted(links)}:\n{page.text[:600]}"
    return urljoin(page.url, links[label])


def click(session, page, label):
    """Clicks a link or a button, and follows the redirects to the next page."""
    offers = _offers(page)
    if label in offers.links:
        return session.get(address_of(page, label), timeout=LIMIT_S)
    assert label in offers.forms, f"no button {label!r}, but {sorted(offers.forms)}:\n{page.text[:600]}"
    method, action, fields = offers.forms[label]
    return session.request(method.upper(), urljoin(page.url, action), data=fields, timeout=LIMIT_S)
