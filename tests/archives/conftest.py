"""One bare machine for each archive in the folder that SARSEN_DIST names."""

import os
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
sys.path += [str(TESTS / "outside/python"), str(TESTS / "relying_parties")]

from machine import Machine  # noqa: E402

DIST = Path(os.environ["SARSEN_DIST"])
BARE = Path(os.environ["SARSEN_BARE_DEBIANS"])


def pytest_generate_tests(metafunc):
    if "archive" in metafunc.fixturenames:
        found = sorted(DIST.glob("sarsen-*.tar.gz"))
        metafunc.parametrize("archive", found, ids=[path.name for path in found], scope="module")


@pytest.fixture(scope="module")
def machine(archive, tmp_path_factory):
    made = Machine(archive, BARE, tmp_path_factory.mktemp("machine"))
    yield made
    made.close()
