"""A release, places without a network, and the servers of a loopback that only they reach."""

import os
import shutil
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
sys.path += [str(TESTS / name) for name in ("outside/python", "relying_parties", "edge")]

from bare import Bare, place  # noqa: E402
from network import network  # noqa: E402
from program import Program  # noqa: E402
from release import FILES_PORT, Release, run  # noqa: E402

REGISTRY_PORT = 4873
REGISTRY = f"http://127.0.0.1:{REGISTRY_PORT}"
# What is in each place, beside the least that Debian has.
CONTENTS = {
    "curl": ["curl", "ca-certificates"],
    "node": ["nodejs", "npm"],
    "python": ["python3"],
}


@pytest.fixture(scope="session")
def release(tmp_path_factory):
    return Release(tmp_path_factory.mktemp("release"))


@pytest.fixture
def archive(request):
    """The kind of place that the test is marked with. Made before the network is left."""
    if os.geteuid() != 0 or not shutil.which("mmdebstrap"):
        pytest.skip("a bare Debian is made by root, with mmdebstrap")
    kind = request.node.get_closest_marker("place").args[0]
    return place(kind, CONTENTS[kind])


@pytest.fixture
def alone():
    """A network of this test's own, with nothing but a loopback."""
    if os.geteuid() != 0:
        pytest.skip("a network of one's own is made by root")
    with network([]):
        yield


@pytest.fixture
def bare(archive, alone, tmp_path):
    """The place. Before the servers in the arguments of a test: they are in the same network."""
    made = Bare(tmp_path / "place", archive)
    yield made
    made.stop()
    shutil.rmtree(made.root, ignore_errors=True)


@pytest.fixture
def files(alone, release, tmp_path):
    """A file server with the release."""
    server = [sys.executable, "-m", "http.server", "--bind", "127.0.0.1", str(FILES_PORT)]
    program = Program(server, FILES_PORT, tmp_path / "files.log", cwd=release.site)
    yield program
    program.stop()


@pytest.fixture
def registry(alone, release, tmp_path):
    """A registry of npm where the packages are published."""
    settings = tmp_path / "verdaccio.yaml"
    access = "{access: $all, publish: $anonymous}"
    settings.write_text(
        f"storage: {tmp_path}/storage\nmax_body_size: 200mb\nlog: {{type: stdout, level: warn}}\n"
        f"packages:\n  '@*/*': {access}\n  '**': {access}\n",
        encoding="utf-8",
    )
    node = os.environ.get("SARSEN_NODE", "node")
    verdaccio = TESTS / "packages/node_modules/verdaccio/bin/verdaccio"
    command = [node, str(verdaccio), "-c", str(settings), "-l", f"127.0.0.1:{REGISTRY_PORT}"]
    program = Program(command, REGISTRY_PORT, tmp_path / "verdaccio.log")
    yield REGISTRY
    program.stop()


@pytest.fixture
def published(registry, release, tmp_path):
    """The registry with the packages of the release, published by npm."""
    settings = tmp_path / "npmrc"
    settings.write_text(f"registry={registry}/\n//127.0.0.1:{REGISTRY_PORT}/:_authToken=nobody\n", encoding="utf-8")
    own = {**os.environ, "npm_config_userconfig": str(settings), "npm_config_cache": str(tmp_path / "cache")}
    for package in release.npm():
        run("npm", "publish", package, env=own)
    return registry
