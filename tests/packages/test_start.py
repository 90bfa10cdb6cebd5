"""One line, copied, in a place that has seen nothing of Sarsen: within a minute ada is signed in."""

import shutil
import time
from pathlib import Path

import pytest
from people import ada_signs_in
from release import FILES

LIMIT_S = 60
# The last line of what a demo prints.
READY = r"Start with the same --data"


@pytest.mark.place("curl")
def test_the_install_script(bare, files):
    printed = within_a_minute(bare, f"curl -fsSL {FILES}/install.sh | sh && ~/.local/bin/sarsen demo")
    assert "verified:   the signature of SHA256SUMS" in printed
    assert "verified:   the SHA-256" in printed


@pytest.mark.place("node")
def test_npx(bare, published):
    within_a_minute(bare, "npx --yes sarsen demo", npm_config_registry=published)


@pytest.mark.place("python")
def test_uvx(bare, files):
    uv = pytest.importorskip("uv")
    for program in ("uv", "uvx"):
        shutil.copy(Path(uv.find_uv_bin()).with_name(program), bare.root / "usr/local/bin")
    within_a_minute(bare, "uvx sarsen-server demo", UV_DEFAULT_INDEX=f"{FILES}/simple")


def within_a_minute(place, line, **environment):
    start = time.monotonic()
    demo = place.start("sh", "-c", line, **environment)
    demo.wait_for(READY)
    ada_signs_in(demo.printed)
    seconds = time.monotonic() - start
    print(f"{line}: ada is signed in after {seconds:.1f} s")
    assert seconds <= LIMIT_S
    return demo.printed
