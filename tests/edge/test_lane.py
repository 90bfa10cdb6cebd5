"""Sign-ups and sign-ins from addresses of a network namespace: a class behind one address, and users beside attackers."""

import http.client
import re
import threading
import time
from urllib.parse import urlencode

import pytest
import requests
from network import network
from person import forms_of
from program import free_port

SERVER, SERVER_6 = "10.77.0.1", "2001:db8:77::1"
SIGN_UP_CLASS, SIGN_IN_CLASS, KNOWN = "10.77.0.2", "10.77.0.3", "10.77.0.4"
ATTACKERS = ["10.77.0.5", "10.77.0.6"]
NEW = [f"10.77.0.{number}" for number in range(20, 40)]
SITE = [f"2001:db8:1:{number:x}::1" for number in range(240)]
CLASS, TRIES, CONNECTIONS_EACH = 40, 20, 80
SENT_WITHIN_S, SERVED_WITHIN_S, LENT_S = 0.2, 4, 3
LIMIT_S = 30
PASSWORD = "correct horse battery"


@pytest.fixture(scope="module", autouse=True)
def own_network():
    addresses = [f"{address}/24" for address in [SERVER, SIGN_UP_CLASS, SIGN_IN_CLASS, KNOWN, *ATTACKERS, *NEW]]
    addresses += [f"{address}/64" for address in [SERVER_6, *SITE]]
    try:
        with network(addresses):
            yield
    except PermissionError as error:
        pytest.skip(f"a network namespace is not possible here: {error}")


@pytest.fixture
def server(install):
    port = free_port()
    listen = [f"127.0.0.1:{port}", f"{SERVER}:{port}", f"[{SERVER_6}]:{port}"]
    # All sign-ups come to the lane, also those of attackers.
    limits = {"sign_ups_per_network_max": 1_000_000, "hash_threads": 2}
    installation = install(f"http://localhost:{port}", listen=listen, request_log=False, **limits)
    installation.port = port
    installation.start()
    return installation


class Browser:
    """A form of the organization, from an address, and what a browser keeps of it."""

    def __init__(self, server, address, page):
        self.server, self.address, self.cookies, self.fields = server, address, {}, {}
        self.path = f"/o/{server.says['organization']['slug']}/{page}"
        status, text = self._request("GET", None)
        assert status == 200, text
        self.fields = next(form.fields for form in forms_of(text) if form.asks_for("password"))

    def send(self, **fields):
        """Sends the form. Gives the status."""
        return self._request("POST", urlencode({**self.fields, **fields}))[0]

    def _request(self, method, body):
        to = SERVER_6 if ":" in self.address else SERVER
        connection = http.client.HTTPConnection(to, self.server.port, LIMIT_S, source_address=(self.address, 0))
        headers = {"Host": f"localhost:{self.server.port}", "Connection": "close"}
        if self.cookies:
            headers["Cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        if body is not None:
            headers["Content-Type"] = "application/x-www-form-urlencoded"
        try:
            connection.request(method, self.path, body, headers)
            answer = connection.getresponse()
            text = answer.read().decode()
        finally:
            connection.close()
        for cookie in answer.msg.get_all("Set-Cookie") or []:
            name, value = cookie.split(";")[0].split("=", 1)
            self.cookies[name] = value
        return answer.status, text


def metric(server, name):
    page = requests.get(f"{server.issuer}/metrics", timeout=LIMIT_S).text
    return float(re.search(rf"^sarsen_{name} (\S+)$", page, re.MULTILINE)[1])


def runs(server):
    return [metric(server, f'lane_run_duration_seconds_{what}{{lane="hash"}}') for what in ("sum", "count")]


def at_once(server, browsers, forms):
    """Sends a form in each browser. How many were let in, and how many the processors could have served."""
    start, served, sent, lock = threading.Barrier(len(browsers) + 1), [], [], threading.Lock()

    def send(browser, form):
        start.wait(LIMIT_S)
        sent.append(time.monotonic())
        status = browser.send(**form)
        with lock:
            served.append((status, time.monotonic()))

    threads = [threading.Thread(target=send, args=pair, daemon=True) for pair in zip(browsers, forms, strict=True)]
    for thread in threads:
        thread.start()
    before = runs(server)
    start.wait(LIMIT_S)
    for thread in threads:
        thread.join(LIMIT_S)
    assert len(served) == len(browsers), "all were answered"
    took, count = (now - old for now, old in zip(runs(server), before, strict=True))
    possible = min(len(browsers), int(LENT_S * 2 * count / took))
    first = min(sent)
    assert max(sent) - first <= SENT_WITHIN_S, "they did not come at once"
    let_in = sum(status == 303 and at - first <= SERVED_WITHIN_S for status, at in served)
    slowest = max(at for _, at in served) - first
    print(f"\n{let_in} of {len(served)} in {slowest:.2f} s; {took / count * 1000:.0f} ms each, so {possible} were possible")
    return let_in, possible


def test_a_class_signs_up_and_signs_in_within_the_same_second(server):
    pupils = [{"email": f"pupil-{number}@class.test", "password": PASSWORD} for number in range(CLASS)]
    browsers = [Browser(server, SIGN_UP_CLASS, "signup") for _ in pupils]
    let_in, possible = at_once(server, browsers, [{"name": "Pupil", **pupil} for pupil in pupils])
    assert let_in >= possible, "sign-ups"
    for pupil in pupils if let_in < CLASS else []:
        # Those that were refused need an account for what follows.
        Browser(server, NEW[0], "signup").send(name="Pupil", **pupil)
    browsers = [Browser(server, SIGN_IN_CLASS, "login") for _ in pupils]
    let_in, possible = at_once(server, browsers, pupils)
    assert let_in >= possible, "sign-ins"


class Attack:
    """Sends sign-ups from these addresses until the end, each with a browser of its own."""

    def __init__(self, server, addresses):
        self._server, self._ended = server, threading.Event()
        self._refused = metric(server, "hash_refused_total")
        self._threads = [threading.Thread(target=self._send, args=(address,), daemon=True) for address in addresses]

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        limit = time.monotonic() + LIMIT_S
        while metric(self._server, "hash_refused_total") == self._refused:
            assert time.monotonic() < limit, "the lane is never full"

    def __exit__(self, *_):
        self._ended.set()
        for thread in self._threads:
            thread.join(LIMIT_S)

    def _send(self, address):
        taken = self._server.user("ada")["email"]
        while not self._ended.is_set():
            try:
                browser = Browser(self._server, address, "signup")
                while not self._ended.is_set():
                    browser.send(name="Mallory", email=taken, password=PASSWORD)
            except (OSError, http.client.HTTPException):
                # The server is busy; once more.
                continue


def test_a_known_browser_gets_in_beside_two_networks_that_attack(server):
    ada = server.user("ada")
    known = Browser(server, KNOWN, "login")
    own = {"email": ada["email"], "password": ada["password"]}
    assert known.send(**own) == 303
    with Attack(server, ATTACKERS * CONNECTIONS_EACH):
        let_in = sum(known.send(**own) == 303 for _ in range(TRIES))
    print(f"\na known browser: {let_in} of {TRIES}")
    assert let_in == TRIES


def test_a_new_browser_gets_in_beside_240_networks_of_a_site(server):
    ada = server.user("ada")
    own = {"email": ada["email"], "password": ada["password"]}
    with Attack(server, SITE):
        let_in = sum(Browser(server, address, "login").send(**own) == 303 for address in NEW)
    print(f"\nnew browsers: {let_in} of {TRIES}")
    assert let_in == TRIES
