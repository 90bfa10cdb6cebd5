"""The guides of docs/guides, the tasks of docs/operate and the answers of docs/api.md, as they stand on the page."""

import json
import re
from contextlib import contextmanager

import pytest
import requests
from demo import ROOT, Demo
from guide import Reader, blocks_of
from oauth import access_token
from page import address_of, click
from person import Person
from program import free_port

BEFORE_THE_START = ["Register the site", "Write the site"]
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")


@pytest.fixture
def own_demo():
    """A demo of the test's own: the guides change plans and end sessions."""
    server = Demo()
    yield server
    server.stop()


@pytest.fixture
def site_port():
    return free_port()


@pytest.fixture
def reader(own_demo, tmp_path, site_port):
    administrator = own_demo.says["organization"]["admin"]
    return Reader(tmp_path, administrator, own_demo.issuer.rsplit(":", 1)[1], site_port)


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
        "GET /api/service/users": get(demo, f"/api/service/users?ids={pair['user']}", key),
        "POST /api/service/check": requests.post(
            f"{demo.issuer}/api/service/check", json={"checks": [pair]}, headers=bearer(key), timeout=15
        ),
    }
    assert sorted(samples) == sorted(answers)
    for route, answer in answers.items():
        assert answer.status_code == 200, answer.text
        assert_shape(json.loads(samples[route].text), answer.json())
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


def test_the_page_names_every_metric(demo):
    page = (ROOT / "docs/operate/monitoring.md").read_text(encoding="utf-8")
    answered = requests.get(f"{demo.issuer}/metrics", timeout=15).text
    names = {line.split("{")[0].split(" ")[0] for line in answered.splitlines() if not line.startswith("#")}
    assert set(re.findall(r"`(sarsen_\w+)[`{]", page)) == names


def test_every_guide_is_followed():
    names = {path.stem for path in (ROOT / "docs/guides").glob("*.md")}
    assert names == {"express", "flask", "spring", "terminal", "backend", "first-server"}


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


def get(demo, path, token):
    return requests.get(f"{demo.issuer}{path}", headers=bearer(token), timeout=15)


def bearer(token):
    return {"Authorization": f"Bearer {token}"}


def text_of(blocks):
    return "".join(block.text for block in blocks)


def assert_shape(sample, answer, place=""):
    """Same fields in the same order, same values; of ids and versions the beginning, of times the form."""
    assert type(sample) is type(answer), f"{place}: {sample!r} on the page, {answer!r} from the server"
    if isinstance(sample, dict):
        assert list(sample) == list(answer), place
        for name in sample:
            assert_shape(sample[name], answer[name], f"{place}.{name}")
    elif isinstance(sample, list):
        assert len(sample) == len(answer), place
        for index, (one, other) in enumerate(zip(sample, answer)):
            assert_shape(one, other, f"{place}[{index}]")
    elif isinstance(sample, str) and sample.endswith("…"):
        assert "_" not in sample or answer.split("_")[0] == sample.split("_")[0], f"{place}: {answer}"
    elif isinstance(sample, str) and TIME.fullmatch(sample):
        assert TIME.fullmatch(answer), f"{place}: {answer}"
    else:
        assert sample == answer, f"{place}: {sample!r} on the page, {answer!r} from the server"
