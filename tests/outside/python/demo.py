"""A running Sarsen for the tests: `sarsen demo` on a folder of its own, stopped by its process id."""

import json
import os
import select
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
BINARY = os.environ.get("SARSEN_BIN", str(ROOT / "target/debug/sarsen"))
START_LIMIT_S = 60
STOP_LIMIT_S = 15


class Demo:
    """What the demo printed, and an end to it."""

    def __init__(self, under=(), limit_s=START_LIMIT_S):
        """Starts it, under another program such as a profiler if one is given."""
        self._folder = tempfile.TemporaryDirectory(prefix="sarsen-outside-")
        data = os.path.join(self._folder.name, "data")
        command = [*under, BINARY, "demo", "--json", "--data", data, "--listen", "127.0.0.1:0"]
        self._log = open(os.path.join(self._folder.name, "log"), "w+", encoding="utf-8")
        self._server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self._log, text=True)
        ready, _, _ = select.select([self._server.stdout], [], [], limit_s)
        line = self._server.stdout.readline() if ready else ""
        if not line.startswith("{"):
            self._log.seek(0)
            log = self._log.read()
            self.stop()
            raise AssertionError(f"`{' '.join(command)}` printed no line of JSON, but {line!r}\n{log}")
        self.says = json.loads(line)
        self.issuer = self.says["issuer"]
        self.pid = self._server.pid

    def client(self, name):
        return self.says["clients"][name]

    def user(self, name):
        return next(user for user in self.says["users"] if user["email"].startswith(f"{name}@"))

    def stop(self):
        self._server.terminate()
        try:
            self._server.wait(STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            self._server.kill()
            self._server.wait()
        self._server.stdout.close()
        self._log.close()
        self._folder.cleanup()
