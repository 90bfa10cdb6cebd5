"""nginx and Caddy with the files of `deploy`, in front of a server. Only names, ports and paths are replaced."""

import os
import re
import shutil
import time

import pytest
import requests
from curl import Stream, curl, seen
from demo import ROOT
from oauth import access_token
from person import Person, forms_of
from program import Program, free_port
from requests.adapters import HTTPAdapter

NGINX = """
daemon off;
pid {folder}/nginx.pid;
error_log {folder}/nginx.log;
{user}
events {{ worker_connections 1024; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    include {folder}/sarsen.conf;
}}
"""
# Events that are held back arrive after seconds, or never.
AT_ONCE_S = 2
# Lines `:` come every 15 s.
QUIET_S = 20
# Of the browsers of a network in which nobody is signed in, in a minute; one browser has ten.
WRONG_CODES = 30


class Proxy:
    """A running proxy, with the server behind it."""

    def __init__(self, name, server, program, plain_port):
        self.name, self.server, self.program, self.plain_port = name, server, program, plain_port
        self.url = server.issuer


def replaced(file, pairs):
    text = (ROOT / "deploy" / file).read_text(encoding="utf-8")
    for old, new in pairs:
        assert old in text, f"deploy/{file} has no {old!r}"
        text = text.replace(old, new)
    return text


def nginx(folder, authority, server, port, plain_port):
    authority.issue(folder)
    others = [free_port(), free_port()]
    pairs = [
        ("127.0.0.1:7070", f"127.0.0.1:{server.port}"),
        ("/etc/letsencrypt/live/id.example.com/fullchain.pem", f"{folder}/tls.pem"),
        ("/etc/letsencrypt/live/id.example.com/privkey.pem", f"{folder}/tls.key"),
        ("https://id.example.com$request_uri", f"https://localhost:{port}$request_uri"),
        ("id.example.com", "localhost"),
        # The machine may be without IPv6.
        ("listen [::]:80;", f"listen 127.0.0.1:{others[0]};"),
        ("listen [::]:443 ", f"listen 127.0.0.1:{others[1]} "),
        ("listen 80;", f"listen 127.0.0.1:{plain_port};"),
        ("listen 443 ", f"listen 127.0.0.1:{port} "),
    ]
    (folder / "sarsen.conf").write_text(replaced("nginx.conf", pairs), encoding="utf-8")
    user = "user root;" if os.geteuid() == 0 else ""
    (folder / "nginx.conf").write_text(NGINX.format(folder=folder, user=user), encoding="utf-8")
    program = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
    return Program([program, "-c", str(folder / "nginx.conf")], port, folder / "output.log")


def caddy(folder, server, port, plain_port):
    # For `localhost` Caddy makes the certificate itself; it shall not change what this machine trusts.
    own = ["skip_install_trust", "admin off", "default_bind 127.0.0.1", f"http_port {plain_port}", f"https_port {port}"]
    pairs = [
        ("{\n\tservers {", "".join(f"{line}\n\t" for line in ["{", *own]) + "servers {"),
        ("127.0.0.1:7070", f"127.0.0.1:{server.port}"),
        ("\nid.example.com {", "\nlocalhost {"),
    ]
    (folder / "Caddyfile").write_text(replaced("Caddyfile", pairs), encoding="utf-8")
    home = {**os.environ, "HOME": str(folder), "XDG_DATA_HOME": str(folder), "XDG_CONFIG_HOME": str(folder)}
    command = ["caddy", "run", "--config", str(folder / "Caddyfile"), "--adapter", "caddyfile"]
    return Program(command, port, folder / "output.log", env=home)


@pytest.fixture(params=["nginx", "caddy"])
def proxy(request, install, authority, tmp_path, monkeypatch):
    port, plain_port = free_port(), free_port()
    server = install(f"https://localhost:{port}", trusted_proxies=["127.0.0.1"])
    server.start()
    folder = tmp_path / "proxy"
    folder.mkdir()
    if request.param == "nginx":
        program = nginx(folder, authority, server, port, plain_port)
    else:
        program = caddy(folder, server, port, plain_port)
        root = folder / "caddy/pki/authorities/local/root.crt"
        await_that(root.is_file)
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(root))
        monkeypatch.setenv("CURL_CA_BUNDLE", str(root))
        await_that(lambda: "200" in status_of(f"{server.issuer}/healthz"))
    yield Proxy(request.param, server, program, plain_port)
    program.stop()


def status_of(url):
    """The status of an answer, or nothing while there is none."""
    try:
        return seen(url)
    except AssertionError:
        return ""


def await_that(holds, limit_s=30):
    deadline = time.monotonic() + limit_s
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_user_signs_in(proxy):
    ada = proxy.server.user("ada")
    token = access_token(proxy.server, proxy.server.client("web"), Person(ada["email"], ada["password"]))
    answer = requests.get(f"{proxy.url}/api/user", headers={"Authorization": f"Bearer {token}"}, timeout=15)
    assert (answer.status_code, answer.json()["email"]) == (200, ada["email"])

    assert seen(f"{proxy.url}/healthz", "--http2") == "200 2"
    assert seen(f"{proxy.url}/healthz", "--http1.1") == "200 1.1"
    assert seen(f"{proxy.url}/metrics") == "404 2", "the metrics stay private"
    moved = curl("--head", f"http://localhost:{proxy.plain_port}/login?next=1").lower()
    # Caddy leaves the port out.
    assert re.search(r"^http/1.1 308.*\nlocation: https://localhost(:\d+)?/login\?next=1\n", moved, re.DOTALL), moved
    huge = ["--data-binary", "x" * 100_000, "--data-binary", "y" * 100_000, "--data-binary", "z" * 100_000]
    assert seen(f"{proxy.url}/auth/token", *huge).startswith("413")
    long = ["--http1.1", "--header", f"X-Long: {'x' * 40_000}"]
    assert seen(f"{proxy.url}/healthz", *long) in ("400 1.1", "431 1.1")


def test_the_longest_request_of_a_product_reaches_the_sign_in(proxy):
    client = proxy.server.client("spa")
    # The server takes 7,680 bytes, and answers with an address that has all of them.
    fields = {"client_id": client["client_id"], "redirect_uri": client["redirect_uris"][0], "response_type": "code",
              "scope": "openid", "code_challenge": "x" * 43, "code_challenge_method": "S256", "state": "s" * 7000}
    asked = requests.get(f"{proxy.url}/auth/authorize", params=fields, allow_redirects=False, timeout=15)
    assert asked.status_code == 303, asked.text
    page = requests.get(proxy.url + asked.headers["location"], timeout=15)
    assert page.status_code == 200 and "s" * 7000 in page.text, page.text


@pytest.mark.parametrize("version", ["--http2", "--http1.1"])
def test_an_event_arrives_at_once(proxy, version):
    ada = proxy.server.user("ada")
    token = access_token(proxy.server, proxy.server.client("web"), Person(ada["email"], ada["password"]))
    headers, address = proxy.server.administrator()
    user = requests.get(f"{proxy.url}/api/user", headers={"Authorization": f"Bearer {token}"}, timeout=15).json()
    stream = Stream(f"{proxy.url}/api/live", version, "--header", f"Authorization: Bearer {token}")
    stream.until("event: state", AT_ONCE_S)
    for name in ["Ada King", "Ada Lovelace"]:
        changed = requests.patch(f"{address}/users/{user['id']}", json={"name": name}, headers=headers, timeout=15)
        assert changed.ok, changed.text
        stream.until("event: user.changed", AT_ONCE_S)
    stream.until(":", QUIET_S)
    stream.until(":", QUIET_S)
    stream.close()
    await_that(lambda: metric(proxy.server, "sarsen_streams") == 0)


def metric(server, name):
    lines = requests.get(f"http://localhost:{server.port}/metrics", timeout=15).text.splitlines()
    return float(next(line.split()[-1] for line in lines if line.split(" ")[0] == name))


def test_the_address_of_the_client_is_used(proxy):
    path = f"{proxy.url}/.well-known/openid-configuration"
    curl("--interface", "127.0.0.2", "--header", "X-Forwarded-For: 192.0.2.1", path)
    await_that(lambda: any(line["address"] == "127.0.0.2" for line in proxy.server.requests()))
    assert "192.0.2.1" not in proxy.server.log()

    browsers = [browser_at("127.0.0.2") for _ in range(4)]
    statuses = [wrong_code(proxy, browsers[number // 10]) for number in range(WRONG_CODES + 1)]
    assert 429 not in statuses[:-1] and statuses[-1] == 429, statuses
    assert wrong_code(proxy, browser_at("127.0.0.3")) != 429, "another client"


def browser_at(address):
    """A browser at another address."""

    class Adapter(HTTPAdapter):
        def init_poolmanager(self, *args, **options):
            super().init_poolmanager(*args, source_address=(address, 0), **options)

    session = requests.Session()
    session.mount("https://", Adapter())
    return session


def wrong_code(proxy, browser):
    page = browser.get(f"{proxy.url}/activate", timeout=15)
    form = next(form for form in forms_of(page.text) if form.asks_for("user_code"))
    fields = {**form.fields, "user_code": "BBBB-BBBB"}
    return browser.post(f"{proxy.url}{form.action}", data=fields, headers={"Origin": proxy.url}, timeout=15).status_code


def test_the_server_restarts_behind_it(proxy):
    ada = proxy.server.user("ada")
    token = access_token(proxy.server, proxy.server.client("web"), Person(ada["email"], ada["password"]))
    stream = Stream(f"{proxy.url}/api/live", "--http2", "--header", f"Authorization: Bearer {token}")
    stream.until("event: state", AT_ONCE_S)
    proxy.server.stop()
    stream.until("event: bye", AT_ONCE_S)
    stream.close()
    user = ["--header", f"Authorization: Bearer {token}", f"{proxy.url}/api/user"]
    if proxy.name == "nginx":
        waits = curl("--include", *user)
        assert "503" in waits.split("\n")[0] and "retry-after: 1" in waits.lower(), waits
        proxy.server.start()
    else:
        held = Stream(user[-1], *user[:-1], "--write-out", "\n%{http_code}\n")
        proxy.server.start()
        held.until("200", 15)
    assert seen(user[-1], *user[:-1]) == "200 2"
