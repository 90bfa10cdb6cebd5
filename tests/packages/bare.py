"""Small Debians in folders, and programs in them."""

import os
import re
import select
import signal
import subprocess
import time
from pathlib import Path

from release import ROOT, run

PLACES = ROOT / "target/packages/places"
SUITE = "bookworm"
USER = 1000
HOME = "home/user"


def place(name, packages):
    """The archive of a bare Debian with these packages, made once. It takes the network of this machine."""
    archive = PLACES / f"{SUITE}-{name}.tar"
    if not archive.is_file():
        PLACES.mkdir(parents=True, exist_ok=True)
        unfinished = archive.with_suffix(".new.tar")
        run("mmdebstrap", "--quiet", "--variant=minbase", f"--include={','.join(packages)}", SUITE, unfinished)
        unfinished.rename(archive)
    return archive


class Bare:
    """A place to run programs in. Processes end with it."""

    def __init__(self, folder, archive=None):
        self.root = folder
        folder.mkdir(parents=True, exist_ok=True)
        if archive:
            run("tar", "-xf", archive, "-C", folder, "--numeric-owner")
        for name in ("proc", HOME):
            (folder / name).mkdir(parents=True, exist_ok=True)
        os.chown(folder / HOME, USER, USER)
        self._started = []

    def command(self, words, user=USER, folder="/", **environment):
        inside = {"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "HOME": f"/{HOME}", "LANG": "C.UTF-8"}
        inside.update(environment)
        # This machine's own program does all that a shell would do: the place need not have one.
        unshare = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", f"--root={self.root}"]
        return [*unshare, f"--wd={folder}", f"--setgid={user}", f"--setuid={user}", "--", *words], inside

    def run(self, *words, code=0, **place):
        """A program to its end, with what `command` takes: what it prints."""
        command, inside = self.command(words, **place)
        done = subprocess.run(command, env=inside, capture_output=True, text=True)
        text = done.stdout + done.stderr
        assert done.returncode == code, f"{words} ended with {done.returncode}:\n{text}"
        return text

    def start(self, *words, **place):
        command, inside = self.command(words, **place)
        self._started.append(Started(command, inside))
        return self._started[-1]

    def stop(self):
        for started in self._started:
            started.stop()


class Started:
    """A program that runs, and what it has printed."""

    def __init__(self, command, environment):
        streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        self._process = subprocess.Popen(command, env=environment, start_new_session=True, **streams)
        self.printed = ""

    def wait_for(self, pattern, limit_s=120):
        """Until it has printed this."""
        deadline = time.monotonic() + limit_s
        while not (found := re.search(pattern, self.printed)):
            ready, _, _ = select.select([self._process.stdout], [], [], max(0, deadline - time.monotonic()))
            read = os.read(self._process.stdout.fileno(), 65536).decode() if ready else ""
            assert read, f"it printed no {pattern!r} within {limit_s} s, but:\n{self.printed}"
            self.printed += read
        return found

    def stop(self):
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._process.stdout.close()
