"""The guides of docs/guides, as they stand on the page."""

import json
import re
import shutil
from contextlib import contextmanager

import pytest
import requests
from demo import ROOT
from guide import Reader
from page import address_of, click
from playwright.sync_api import expect
from person import Person
from program import free_port
from shape import assert_shape

BEFORE_THE_START = ["Register the site", "Write the site"]
# In the browser: what the library has stored of the user says that the access token has expired.
EXPIRE = """() => {
    const [key] = Object.keys(sessionStorage).filter((key) => key.startsWith('oidc.user:'));
    sessionStorage.setItem(key, JSON.stringify({ ...JSON.parse(sessionStorage.getItem(key)), expires_at: 1 }));
}"""


class Visitor:
    """A user of the demo in a browser, at the site of a guide."""

    def __init__(self, demo, name, site, callback):
        user = demo.user(name)
        self._person = Person(user["email"], user["password"])
        self._session = self._person.session
        self._site, self._callback = site, callback

    def open(self, path="/"):
        return self._session.get(f"{self._site}{path}", timeout=30)

    def sign_in(self):
        self._person.steps = []
        answer = self._person.walk(address_of(self.open(), "Sign in"), until=self._callback)
        assert isinstance(answer, str) and self._person.steps == ["password"], answer
        page = self._session.get(answer, timeout=30)
        assert (page.status_code, page.url.rstrip("/")) == (200, self._site), page.text
        return page

    def sign_out(self):
        return click(self._session, self.open(), "Sign out")

    def is_signed_in_at(self, demo):
        account = self._session.get(f"{demo.issuer}/o/acme/account", timeout=15)
        return 'name="password"' not in account.text


@pytest.mark.parametrize("name", ["express", "flask", "spring"])
def test_a_site_by_its_guide(name, own_demo, reader, site_port):
    reader.follow(f"guides/{name}", *BEFORE_THE_START)
    site = f"http://localhost:{site_port}"
    callback = re.search(r"--redirect-uri (\S+)", text_of(reader.blocks(f"guides/{name}", "Register the site")))[1]
    with running(reader, text_of(reader.blocks(f"guides/{name}", "Start it")), site_port):
        ada = Visitor(own_demo, "ada", site, callback)
        assert "Hello" not in ada.open().text
        page = ada.sign_in()
        assert all(text in page.text for text in ["Hello Ada", "plan is pro", "see the history"]), page.text

        change, end = [block.text for block in reader.blocks(f"guides/{name}", "See it work")]
        reader.run(change)
        page = ada.open()
        assert "Hello Ada" in page.text and "plan is starter" in page.text, page.text
        assert "history" not in page.text
        reader.run(end)
        page = ada.open()
        assert "Hello" not in page.text and address_of(page, "Sign in"), page.text

        ada.sign_in()
        assert ada.is_signed_in_at(own_demo)
        page = ada.sign_out()
        assert page.url.split("?")[0].rstrip("/") == site, page.url
        assert "Hello" not in page.text and address_of(page, "Sign in"), page.text
        assert "Hello" not in ada.open().text
        assert not ada.is_signed_in_at(own_demo)


def test_a_page_by_its_guide(own_demo, reader, site_port, browser_page):
    guide, site = "guides/spa", f"http://localhost:{site_port}"
    reader.follow(guide, "Register the page", "Write the page")
    ada, main = own_demo.user("ada"), browser_page.locator("main")

    def sign_in():
        main.get_by_role("button", name="Sign in").click()
        browser_page.locator("input[name=email]").fill(ada["email"])
        browser_page.locator("input[name=password]").fill(ada["password"])
        browser_page.locator("input[name=password]").press("Enter")
        expect(main).to_contain_text("Hello Ada")

    with running(reader, text_of(reader.blocks(guide, "Start it")), site_port):
        browser_page.goto(site)
        sign_in()
        expect(main).to_contain_text("plan is pro")
        expect(main).to_contain_text("see the history")
        assert "code=" not in browser_page.url
        change, end = [block.text for block in reader.blocks(guide, "See it work")]
        reader.run(change)
        browser_page.reload()
        expect(main).to_contain_text("plan is starter")
        expect(main).not_to_contain_text("history")
        # The refresh token is used once, and the library keeps the next one.
        for _ in range(2):
            browser_page.evaluate(EXPIRE)
            with browser_page.expect_response("**/auth/token") as answered:
                browser_page.reload()
            assert answered.value.status == 200, answered.value.text()
            expect(main).to_contain_text("Hello Ada")
        reader.run(end)
        browser_page.reload()
        expect(main).to_have_text("Sign in")
        sign_in()
        main.get_by_role("button", name="Sign out").click()
        browser_page.wait_for_url(f"{site}/")
        expect(main).to_have_text("Sign in")
        main.get_by_role("button", name="Sign in").click()
        expect(browser_page.locator("input[name=password]")).to_be_visible()


def test_a_back_end_by_its_guide(reader):
    first = reader.blocks("guides/backend", "Ask from a back end")
    reader.run(text_of(first))
    reader.follow("guides/backend", "Make a key")

    command, sample = reader.blocks("guides/backend", "curl")
    answer = json.loads(reader.run(command.text))
    assert_shape(json.loads(sample.text), answer)
    assert reader.follow("guides/backend", "Node.js").strip() == "true"
    assert reader.follow("guides/backend", "Python").strip() == "True"
    reader.run("sarsen subscription change --org acme --user ada@acme.test --plan starter")
    assert reader.follow("guides/backend", "Node.js").strip() == "false"
    assert reader.follow("guides/backend", "Python").strip() == "False"


def test_a_back_end_in_java_by_its_guide(own_demo, reader, site_port):
    reader.follow("guides/spring", *BEFORE_THE_START)
    reader.follow("guides/backend", "Make a key", "Java")
    site = f"http://localhost:{site_port}"
    with running(reader, text_of(reader.blocks("guides/spring", "Start it")), site_port):
        for name, expected in [("ada", (200, "The history")), ("grace", (403, None))]:
            visitor = Visitor(own_demo, name, site, f"{site}/login/oauth2/code/sarsen")
            visitor.sign_in()
            page = visitor.open("/history")
            assert page.status_code == expected[0] and expected[1] in (None, page.text), page.text


def test_a_tool_by_its_guide(own_demo, reader):
    reader.follow("guides/terminal", "Register the tool", "Write the tool")
    [start] = reader.blocks("guides/terminal", "Start it")
    again, end = reader.blocks("guides/terminal", "See it work")
    ada, greeting = own_demo.user("ada"), "Hello Ada. Your plan is pro."
    printed = reader.run(start.text, ada)
    assert "Type" in printed and greeting in printed, printed
    assert reader.run(again.text, ada).strip() == greeting
    reader.run(end.text)
    printed = reader.run(again.text, ada)
    assert "Type" in printed and greeting in printed, printed


def test_a_server_by_its_guide(tmp_path):
    port = free_port()
    issuer = f"http://localhost:{port}"
    owner = {"email": "olga@example.com", "password": "a-good-password-of-olga"}
    reader = Reader(tmp_path, owner, port, free_port())
    prepare, serve = reader.blocks("guides/first-server", "Start it")
    reader.run(prepare.text)
    with running(reader, serve.text, port):
        show_link, sign_in = reader.blocks("guides/first-server", "Become its owner")
        olga = Person(owner["email"], owner["password"])
        olga.answers["name"] = "Olga"
        olga.walk(reader.run(show_link.text).strip(), until=f"{issuer}/console")
        reader.run(sign_in.text)
        printed = reader.follow("guides/first-server", "Make an organization with a product")
        assert "pro" in printed
        reader.follow("guides/first-server", "Add a user")

        ada = Person("ada@example.com", "a-good-password-of-ada")
        assert ada.walk(reader.printed("password link"), until=f"{issuer}/o/example/").endswith("/account")
        account = ada.session.get(f"{issuer}/o/example/account", timeout=15)
        assert "ada@example.com" in account.text, account.text
        assert "/password?token=" in reader.follow("operate/tasks", "The server")
        sign_up = requests.get(f"{issuer}/o/example/signup", timeout=15)
        assert sign_up.status_code == 200 and 'name="password"' in sign_up.text, sign_up.text


def test_a_back_end_by_its_guide_of_the_library(tmp_path):
    page, port = "extend/back-end-in-a-hundred-lines", free_port()
    reader = Reader(tmp_path, None, free_port(), port)
    # Copies of what the page might write over if it were wrong.
    for name in ["Cargo.toml", "Cargo.lock"]:
        shutil.copy(ROOT / name, tmp_path / "sarsen")
    for name in ["crates", "examples", "xtask", "sdk"]:
        (tmp_path / "sarsen" / name).symlink_to(ROOT / name)
    reader.follow(page, "Begin", "Write the back end", "Write the page")
    # The versions that the repository is tested with.
    shutil.copy(ROOT / "Cargo.lock", tmp_path / "board")
    address = f"http://127.0.0.1:{port}"
    with running(reader, text_of(reader.blocks(page, "Start it")), port):
        ticket = requests.post(f"{address}/live/ticket", timeout=15).json()["ticket"]
        subscription = json.dumps({"key": "notes", "query": "list_notes", "args": {}})
        parameters = {"ticket": ticket, "sub": subscription}
        with requests.get(f"{address}/live", params=parameters, stream=True, timeout=15) as stream:
            values = (json.loads(line[6:]) for line in stream.iter_lines() if b'"value":' in line)
            assert next(values)["value"] == []
            write, refuse = [block for block in reader.blocks(page, "See it work") if block.language == "sh"]
            assert "Hello" in reader.run(write.text)
            assert [note["text"] for note in next(values)["value"]] == ["Hello"]
            assert '"field":"text"' in reader.run(refuse.text)
        shown = requests.get(address, timeout=15)
        assert "EventSource" in shown.text and shown.headers["Content-Type"].startswith("text/html")
    assert "1 passed" in reader.follow(page, "Test it")
    source = (tmp_path / "board/src/main.rs").read_text(encoding="utf-8")
    assert len(source.splitlines()) <= 100


def test_every_guide_is_followed():
    # `tests/templates` follows the page about new products, and starts them by `sarsen dev`.
    names = {path.stem for path in (ROOT / "docs/guides").glob("*.md")} - {"new-product", "dev"}
    assert names == {"express", "flask", "spring", "spa", "terminal", "backend", "first-server"}


@contextmanager
def running(reader, text, port):
    """A program of a guide; what it printed is shown when the test fails."""
    program = reader.start(text, port)
    try:
        yield
    except BaseException:
        print(program.log())
        raise
    finally:
        program.stop()


def text_of(blocks):
    return "".join(block.text for block in blocks)
