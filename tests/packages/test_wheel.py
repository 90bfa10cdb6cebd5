"""The wheel: both commands, by pip, and what twine says of it."""

import os
import signal
import subprocess
import sys

import pytest
from release import VERSION, run


@pytest.fixture
def environment(release, tmp_path):
    """A Python environment with the wheel."""
    folder = tmp_path / "environment"
    run(sys.executable, "-m", "venv", folder)
    pip = ["-m", "pip", "install", "--quiet", "--no-index", "--disable-pip-version-check"]
    run(folder / "bin/python", *pip, release.one("*.whl"))
    return folder


def test_commands(environment):
    for command in (["sarsen-server"], ["sarsen"], ["python", "-m", "sarsen_server"]):
        command = [environment / "bin" / command[0], *command[1:], "--version"]
        assert run(*command) == f"sarsen {VERSION}\n"
    assert subprocess.run([environment / "bin/sarsen-server", "frolic"], capture_output=True).returncode == 2


def test_signals(environment, tmp_path):
    command = [environment / "bin/sarsen-server", "demo", "--json", "--data", tmp_path / "data", "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as demo:
        assert demo.stdout.readline().startswith("{")
        assert os.readlink(f"/proc/{demo.pid}/exe").endswith("/sarsen_server/sarsen"), "in place of Python"
        demo.send_signal(signal.SIGTERM)
    assert demo.returncode == 0


def test_twine_has_no_objection(release):
    run(sys.executable, "-m", "twine", "check", "--strict", release.one("*.whl"))
