"""Memory that the connections of one network take, and whether it goes back to the system when they have closed.

The server and its clients are in a network namespace: addresses of this machine's loopback have no limit.
"""

import os
import re
import resource
import socket
import ssl
import time

import pytest
import requests
from frames import INITIAL_WINDOW_SIZE, PREFACE, get, settings
from network import network
from program import free_port

SERVER, ATTACKER, OTHER = "10.77.0.1", "10.77.0.2", "10.77.0.3"
CONNECTIONS = 9_000
STREAMS = 8
# The weight that one network may have, by default.
SHARE = 2_000
UNREAD_MAX_MIB = 200
IDLE_MAX_MIB = 120
# What may be left a minute after all have closed: this, or a tenth of what they took.
LEFT_MAX_MIB = 20
LEFT_MAX_PART = 0.1
GIVEN_BACK_S = 60


@pytest.fixture(scope="module", autouse=True)
def own_network():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < CONNECTIONS + 1_000:
        pytest.skip(f"{hard} open files are allowed, too few for {CONNECTIONS} connections")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        with network([f"{address}/24" for address in (SERVER, ATTACKER, OTHER)]):
            yield
    except PermissionError as error:
        pytest.skip(f"a network namespace is not possible here: {error}")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.fixture(params=["plain", "tls"])
def server(request, install, authority, tmp_path):
    port, tls = free_port(), {}
    listen = [f"127.0.0.1:{port}", f"{SERVER}:{port}"]
    if request.param == "tls":
        authority.issue(tmp_path)
        tls = {"tls_certificate": str(tmp_path / "tls.pem"), "tls_key": str(tmp_path / "tls.key")}
    scheme = "https" if tls else "http"
    installation = install(f"{scheme}://localhost:{port}", listen=listen, request_log=False, **tls)
    installation.port = port
    installation.start()
    # The description is made at the first request.
    for _ in range(20):
        assert requests.get(f"{installation.issuer}/api/openapi.json", timeout=30).ok
    return installation


def connect(server, source=ATTACKER, protocol="http/1.1"):
    client = socket.socket()
    # The handshakes of a network wait for their turn.
    client.settimeout(60)
    client.bind((source, 0))
    client.connect((SERVER, server.port))
    if server.issuer.startswith("https:"):
        context = ssl.create_default_context(cafile=os.environ["REQUESTS_CA_BUNDLE"])
        context.set_alpn_protocols([protocol])
        return context.wrap_socket(client, server_hostname="localhost")
    return client


def attack(server, count, hello):
    """Opens connections that say hello and read nothing. Those that are reset are kept as well."""
    clients = []
    for _ in range(count):
        try:
            client = connect(server, protocol="h2" if hello.startswith(PREFACE) else "http/1.1")
            clients.append(client)
            client.sendall(hello)
        except OSError:
            # It is one too many, and was reset.
            continue
    return clients


def metric(server, name):
    page = requests.get(f"{server.issuer}/metrics", timeout=30).text
    return float(re.search(rf"^sarsen_{name} (\S+)$", page, re.MULTILINE)[1])


def settled(server):
    """Waits until the server has handled what was sent. Returns its open connections but for our own."""
    last = None
    while (now := (metric(server, "http_connections"), metric(server, "http_connections_refused_total"))) != last:
        last = now
        time.sleep(0.5)
    return int(last[0]) - 1


def is_answered(server, source):
    with connect(server, source) as client:
        client.sendall(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
        return client.recv(15) == b"HTTP/1.1 200 OK"


def given_back(server, before, clients):
    """Closes all, and waits until their memory is back. Returns what is left."""
    grown = server.resident_mib() - before
    for client in clients:
        client.close()
    limit = time.monotonic() + GIVEN_BACK_S
    most = max(LEFT_MAX_MIB, LEFT_MAX_PART * grown)
    while (left := server.resident_mib() - before) > most and time.monotonic() < limit:
        time.sleep(1)
    took = GIVEN_BACK_S - (limit - time.monotonic())
    print(f"{left:.1f} MiB are left {took:.0f} s after they closed")
    assert left <= most, f"{left} MiB are left of {grown}"


def test_responses_that_one_network_does_not_take(server):
    hello = PREFACE + settings([(INITIAL_WINDOW_SIZE, 0)])
    hello += b"".join(get(stream, "/api/openapi.json") for stream in range(1, 2 * STREAMS, 2))
    before = server.resident_mib()
    server.forget_peak()
    # Over TLS a network has 100 handshakes a second.
    count = SHARE if server.issuer.startswith("https:") else CONNECTIONS
    clients = attack(server, count, hello)
    open_now = settled(server)
    assert is_answered(server, OTHER), "another address"
    grown = server.peak_mib() - before
    print(f"\n{count} connections with {STREAMS} streams: {open_now} open, {grown:.1f} MiB more")
    # Idle ones weigh two.
    assert 0 < open_now <= SHARE / 2
    assert grown <= UNREAD_MAX_MIB, f"{grown} MiB more"
    given_back(server, before, clients)
    assert is_answered(server, ATTACKER), "there is room again"


def test_bodies_that_do_not_end(server):
    size = 250_000
    begin = f"POST /webhooks/billing/none HTTP/1.1\r\nhost: localhost\r\ncontent-length: {size + 1}\r\n\r\n"
    before = server.resident_mib()
    server.forget_peak()
    clients = []
    for _ in range(SHARE):
        try:
            client = connect(server)
            clients.append(client)
            client.settimeout(0)
            client.send(begin.encode() + bytes(size))
        except OSError:
            continue
    settled(server)
    assert is_answered(server, OTHER), "another address"
    grown = server.peak_mib() - before
    print(f"\n{len(clients)} bodies of {size} bytes: {grown:.1f} MiB more")
    assert grown <= UNREAD_MAX_MIB, f"{grown} MiB more"
    given_back(server, before, clients)


@pytest.mark.parametrize(
    ("hello", "weight"),
    [
        (b"GET /api/openapi.json HTTP/1.1\r\nhost: localhost\r\n\r\n", 1),
        (PREFACE + settings(), 2),
        (PREFACE + settings([(INITIAL_WINDOW_SIZE, 0)]) + get(1, "/.well-known/jwks.json"), 3),
    ],
    ids=["http1", "http2", "one_stream"],
)
def test_a_full_share_of_connections(server, hello, weight):
    before = server.resident_mib()
    server.forget_peak()
    clients = attack(server, SHARE // weight, hello)
    assert settled(server) == SHARE // weight
    clients += attack(server, 100, hello)
    assert settled(server) <= SHARE // weight + weight, "the rest is refused"
    assert metric(server, "http_connections_refused_total") + metric(server, "http_streams_refused_total") >= 98
    assert is_answered(server, OTHER), "another address"
    grown = server.peak_mib() - before
    print(f"\n{SHARE // weight} connections: {grown:.1f} MiB more")
    assert grown <= IDLE_MAX_MIB, f"{grown} MiB more"
    assert server.log().count("were refused: one network has too many") == 1, "one line a minute"
    given_back(server, before, clients)
