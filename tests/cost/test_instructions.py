"""No request is expensive by its shape: every route of the router gets the worst requests that fit the limits of size,
and the server's instructions are counted. Time is not measured, so the figures do not depend on the machine.
"""

import os

import pytest
import shapes
from callgrind import Counted
from world import World, routes

# How many times the instructions of the ordinary request a worst one may take, and of the worst one of half the size.
TIMES_MAX = 20
DOUBLE_MAX = 2.5
# What the server does by the clock is counted too, sometimes: a count above a limit is taken again.
TRIES_MAX = 4


@pytest.fixture(scope="module")
def counted(tmp_path_factory):
    server = Counted(tmp_path_factory.mktemp("counts"))
    yield server
    server.stop()


@pytest.fixture(scope="module")
def world(counted):
    world = World(counted.demo)
    # After this the server does nothing beside requests but a write every two seconds.
    world.wait_for_keys()
    counted.calibrate()
    return world


@pytest.mark.parametrize(("method", "route"), routes(), ids=lambda part: part)
def test_no_request_is_expensive_by_its_shape(counted, world, method, route):
    ordinary, status = ordinary_cost(counted, world, method, route)
    assert 200 <= status < 500, status
    rows = []
    for name, size, shape in shapes.of(world.ordinary(method, route), world.port):
        rows.append(measure(counted, lambda size, shape=shape: shape(world.ordinary(method, route), size), size, ordinary))
        rows[-1]["shape"] = name
    worst = max(rows, key=lambda row: row["times"])
    print(f"\n{method} {route}: {ordinary} ({status}); {worst['times']:.1f} times for {worst['shape']}", end=" ")
    write_down(method, route, ordinary, status, worst)
    wrong = [row for row in rows if is_too_much(row) or row["status"] >= 500]
    assert not wrong, "\n".join(map(str, [f"ordinary: {ordinary}", *wrong]))


def ordinary_cost(counted, world, method, route):
    """The first ones fill caches."""
    counts = [counted.count(world.ordinary(method, route)) for _ in range(4)]
    # Nothing is cheaper than `/healthz`.
    return max(min(count for count, _ in counts), counted.own), counts[-1][1].status


def is_too_much(row):
    return row["times"] > TIMES_MAX or (row["is_body"] and row["double"] > DOUBLE_MAX)


def measure(counted, request, size, ordinary):
    """The cost of a shape, in full and in half size."""
    row = None
    for _ in range(TRIES_MAX):
        small, _ = counted.count(request(size // 2))
        large, answer = counted.count(request(size))
        small, large = (min(small, row["small"]), min(large, row["large"])) if row else (small, large)
        row = {
            "small": small,
            "large": large,
            # The larger one may be refused early.
            "times": max(small, large) / ordinary,
            "double": large / small,
            "status": answer.status,
            # A head is shorter than the buffer for it, and what it costs is not a matter of its size alone.
            "is_body": size == shapes.BODY,
        }
        if not is_too_much(row):
            break
    return row


def write_down(method, route, ordinary, status, worst):
    """One line a route into the file that SARSEN_COST_TABLE names."""
    table = os.environ.get("SARSEN_COST_TABLE")
    if table:
        with open(table, "a", encoding="utf-8") as lines:
            lines.write(
                f"{method} {route}\t{ordinary}\t{status}\t{worst['times']:.1f}\t{worst['double']:.2f}\t"
                f"{worst['shape']}\t{worst['status']}\n"
            )
