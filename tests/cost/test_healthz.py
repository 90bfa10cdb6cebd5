"""What the worst requests do to others: `/healthz` under 8 connections that send 1 MiB a second of them, compared with
as many ordinary requests.
"""

import itertools
import multiprocessing
import os
import statistics
import time
from pathlib import Path

import pytest
import shapes
from demo import Demo
from wire import Wire
from world import World, routes

CONNECTIONS = 8
BYTES_S = 1024 * 1024
# How often the phases alternate, how long each is, and how often `/healthz` is asked in it.
ALTERNATIONS = 5
PHASE_S = float(os.environ.get("SARSEN_COST_PHASE_S", "10"))
PROBES_S = 200
TIMES_MAX = 3
# How many of all shapes are the worst.
WORST = 32


@pytest.fixture(scope="module")
def demo():
    server = Demo()
    yield server
    server.stop()


def test_the_worst_requests_hold_up_no_others(demo):
    world = World(demo)
    worst = slowest(world)
    for more, method, route, name, _, _ in worst[:8]:
        print(f"\n{more / 1e6:6.2f} ms more: {method} {route}: {name}", end="")
    pairs = [(payload, ordinary) for *_, payload, ordinary in worst]
    bad, good = zip(*pairs)
    interval = sum(map(len, bad)) / len(bad) / BYTES_S
    figures = []
    for _ in range(ALTERNATIONS):
        under_bad, under_good = (p99(world.port, requests, interval) for requests in (bad, good))
        figures.append((under_bad / under_good, under_bad, under_good))
        print(f"\np99 {under_bad:.2f} ms, under ordinary requests {under_good:.2f} ms", end="")
    print(f"\nmedian {statistics.median(figures)[0]:.2f} times, {1 / interval:.1f} requests/s")
    assert statistics.median(figures)[0] <= TIMES_MAX, figures


def slowest(world):
    """The shapes of all routes that take most CPU time beyond the ordinary request, each with that."""
    found, wire = [], Wire(world.port)
    for method, route in routes():
        ordinary = world.ordinary(method, route)
        usual = cpu_time(world, wire, ordinary)
        for name, size, shape in shapes.of(ordinary, world.port):
            request = shape(world.ordinary(method, route), size)
            more = cpu_time(world, wire, request) - usual
            found.append((more, method, route, name, request.bytes(world.port), ordinary.bytes(world.port)))
    return sorted(found, key=lambda one: -one[0])[:WORST]


def cpu_time(world, wire, request):
    """The CPU time of the server for a request, in nanoseconds: the smaller of two, because of what it does beside."""
    times = []
    for _ in range(2):
        wire.connect()
        before = nanoseconds(world.demo.pid)
        answer = wire.send(request)
        assert answer.status < 500, (request.method, request.path, answer)
        times.append(nanoseconds(world.demo.pid) - before)
    return min(times)


def nanoseconds(pid):
    tasks = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(task.read_text(encoding="utf-8").split()[0]) for task in tasks)


def p99(port, requests, interval):
    """The p99 of `/healthz` in milliseconds, while these requests are sent over eight connections."""
    stop = multiprocessing.Event()
    parts = [requests[index::CONNECTIONS] for index in range(CONNECTIONS)]
    load = [multiprocessing.Process(target=send, args=(port, part, interval * CONNECTIONS, stop)) for part in parts]
    for process in load:
        process.start()
    try:
        return probe(port)
    finally:
        stop.set()
        for process in load:
            process.join(30)


def send(port, requests, interval, stop):
    """Sends one request each `interval` seconds."""
    wire, due = Wire(port), time.perf_counter()
    for request in itertools.cycle(requests):
        if stop.wait(max(0, due - time.perf_counter())):
            return
        wire.send_bytes(request)
        due += interval


def probe(port):
    wire, times = Wire(port), []
    wire.connect()
    request = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n"
    due = time.perf_counter()
    for _ in range(int(PHASE_S * PROBES_S)):
        # When an answer is late, the ones that should have been asked meanwhile are late too.
        time.sleep(max(0, due - time.perf_counter()))
        assert wire.send_bytes(request).status == 200
        times.append((time.perf_counter() - due) * 1000)
        due += 1 / PROBES_S
    return sorted(times)[int(len(times) * 0.99)]
