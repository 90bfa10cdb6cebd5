"""The example `counters`, on a database in a folder of its own, stopped by its process id."""

import os
import select
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
BINARY = os.environ.get("COUNTERS_BIN", str(ROOT / "target/debug/counters"))
START_LIMIT_S = 30
STOP_LIMIT_S = 15


class Counters:
    """Its address, its description, and an end to it."""

    def __init__(self):
        self._folder = tempfile.TemporaryDirectory(prefix="counters-outside-")
        command = [BINARY, "--listen", "127.0.0.1:0"]
        self._server = subprocess.Popen(
            command, cwd=self._folder.name, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        ready, _, _ = select.select([self._server.stdout], [], [], START_LIMIT_S)
        line = self._server.stdout.readline() if ready else ""
        if " answers at " not in line:
            self.stop()
            raise AssertionError(f"`{' '.join(command)}` printed no address, but {line!r}")
        self.address = line.split()[-1]

    def description(self):
        """OpenAPI, as the program prints it."""
        done = subprocess.run([BINARY, "--openapi"], capture_output=True, text=True, timeout=START_LIMIT_S, check=True)
        return done.stdout

    def stop(self):
        self._server.terminate()
        try:
            self._server.wait(STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            self._server.kill()
            self._server.wait()
        self._server.stdout.close()
        self._folder.cleanup()
