"""The launcher: signals and exit codes are the program's, and where there is no program it says so."""

import os
import signal
import subprocess

import pytest
from release import run


@pytest.fixture
def installed(release, tmp_path):
    """The packages as npm unpacks them, without a registry."""
    for package in release.npm():
        name = "sarsen" if "linux" not in package.name else f"@sarsen/{package.name.split('-', 1)[1].rsplit('-', 1)[0]}"
        folder = tmp_path / "node_modules" / name
        folder.mkdir(parents=True)
        run("tar", "-xzf", package, "-C", folder, "--strip-components=1")
    return tmp_path / "node_modules"


def launched(installed, *words, before="", **options):
    node = os.environ.get("SARSEN_NODE", "node")
    script = installed / "sarsen/bin/sarsen.js"
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([node, "-e", f"{before}; process.argv.splice(1, 0, 0); require({str(script)!r})", *words], **streams)


def ended(process):
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err


def test_exit_codes(installed):
    code, out, _ = ended(launched(installed, "help"))
    assert code == 0 and "Usage: sarsen" in out
    assert ended(launched(installed, "frolic"))[0] == 2


# Without `execve` it stays beside the program, as in older versions of Node.js.
@pytest.mark.parametrize("before", ["", "delete process.execve"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals(installed, tmp_path, before, number):
    demo = launched(installed, "demo", "--json", "--data", tmp_path / "data", "--listen", "127.0.0.1:0", before=before)
    assert demo.stdout.readline().startswith("{")
    demo.send_signal(number)
    assert ended(demo)[0] == 0, "it stopped as one that is told to"
    assert not list((tmp_path / "data").glob("*-wal")), "the database was closed"


def test_a_program_that_is_killed(installed, tmp_path):
    before = "delete process.execve"
    demo = launched(installed, "demo", "--json", "--data", tmp_path / "data", "--listen", "127.0.0.1:0", before=before)
    assert demo.stdout.readline().startswith("{")
    (child,) = run("pgrep", "-P", demo.pid).split()
    os.kill(int(child), signal.SIGKILL)
    assert ended(demo)[0] == -signal.SIGKILL, "it ends as its program did"


def test_a_platform_without_a_program(installed):
    other = "Object.defineProperty(process, 'arch', {value: 'riscv64'})"
    code, _, err = ended(launched(installed, "demo", before=other))
    assert code == 1 and "there is no program for linux-riscv64; there is one for linux-" in err


def test_optional_dependencies_that_were_left_out(installed):
    run("rm", "-r", installed / "@sarsen")
    code, _, err = ended(launched(installed, "demo"))
    assert code == 1 and "is not installed" in err and "--omit=optional" in err


def test_the_dry_run_of_npm(release, tmp_path):
    own = {**os.environ, "npm_config_cache": str(tmp_path)}
    for package in release.npm():
        run("npm", "publish", "--dry-run", "--offline", package, env=own)
