"""Clients of HTTP/2 that attack the server: each connection ends, and the server spends little on it.

`crates/web/tests/it/floods.rs` has the same without TLS and with the reason of each end; this one measures the program.
"""

import pytest
from curl import seen
from frames import (
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    HEADERS,
    INITIAL_WINDOW_SIZE,
    PING,
    PRIORITY,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    Client,
    fields,
    frame,
    get,
)

CONNECTIONS = 20
# The buffers of the kernel on both sides, and what was read before the end.
SENT_MAX = 16 * 1024 * 1024
# For all connections of a test together; the handshakes take most of it.
CPU_MAX_S = 3
GROWTH_MAX_MIB = 64
CANCEL = (8).to_bytes(4, "big")
# A field of 4,000 bytes that the server keeps, and a reference to it of one byte.
KEPT = b"\x40\x01a\x7f\xa1\x1e" + b"b" * 4000
REFERENCE = b"\xbe"

FLOODS = {
    "PING": (b"", frame(PING, 0, 0, b"\7" * 8)),
    "SETTINGS": (b"", frame(SETTINGS, 0, 0)),
    "PRIORITY": (b"", frame(PRIORITY, 0, 1, bytes([0, 0, 0, 0, 1]))),
    "WINDOW_UPDATE": (b"", frame(WINDOW_UPDATE, 0, 0, (1).to_bytes(4, "big"))),
    "unknown": (b"", frame(0xEE, 0, 0)),
    "empty DATA": (frame(HEADERS, END_HEADERS, 1, fields("/auth/token")), frame(DATA, 0, 1)),
    "empty CONTINUATION": (frame(HEADERS, END_STREAM, 1, fields("/")), frame(CONTINUATION, 0, 1)),
    "CONTINUATION": (frame(HEADERS, END_STREAM, 1, fields("/")), frame(CONTINUATION, 0, 1, b"\0\1a\1b" * 1000)),
}


@pytest.fixture(autouse=True)
def spends_little(server):
    server.forget_peak()
    cpu_s, peak_mib = server.cpu_s(), server.peak_mib()
    yield
    cpu_s, grown = server.cpu_s() - cpu_s, server.peak_mib() - peak_mib
    print(f"\n{cpu_s:.2f} s of CPU, {grown:.1f} MiB more")
    assert server.is_running() and seen(f"{server.issuer}/healthz") == "200 2"
    assert cpu_s < CPU_MAX_S, f"{cpu_s} s of CPU"
    assert grown < GROWTH_MAX_MIB, f"{grown} MiB more"


@pytest.mark.parametrize("name", FLOODS)
def test_a_flood_ends_the_connection(server, name):
    before, part = FLOODS[name]
    for _ in range(CONNECTIONS):
        client = Client(server.port)
        client.send(before)
        client.flood(part, SENT_MAX)
        client.close()


def test_rapid_resets_end_the_connection(server):
    requests = [get(stream, "/.well-known/jwks.json") + frame(RST_STREAM, 0, stream, CANCEL) for stream in odd(50_000)]
    for _ in range(CONNECTIONS):
        client = Client(server.port)
        client.flood(b"".join(requests), SENT_MAX)
        client.close()
    handled = sum(1 for line in server.requests())
    assert handled < 2_000 * CONNECTIONS, f"{handled} of {50_000 * CONNECTIONS}"


def test_a_head_that_grows_when_it_is_unpacked_ends_the_connection(server):
    bomb = fields("/") + KEPT + REFERENCE * 8_000
    for _ in range(CONNECTIONS):
        client = Client(server.port)
        client.send(frame(HEADERS, END_STREAM | END_HEADERS, 1, bomb))
        client.await_end(10)
        client.close()


def test_responses_without_a_window_end(server):
    """The streams are reset after 30 s; then the connection is idle, and ends after 60 s."""
    requests = b"".join(get(stream, "/api/openapi.json") for stream in odd(128))
    clients = [Client(server.port, [(INITIAL_WINDOW_SIZE, 0)]) for _ in range(CONNECTIONS)]
    for client in clients:
        client.send(requests)
    for client in clients:
        client.await_end(120)
        client.close()


def odd(count):
    """Numbers of streams that a client opens."""
    return range(1, 2 * count, 2)
