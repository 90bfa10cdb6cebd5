"""A product that `sarsen new` has written, and `sarsen dev` that runs it."""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/relying_parties"))
sys.path.insert(0, str(ROOT / "tests/outside/python"))

from demo import BINARY  # noqa: E402
from guide import programs_of_node  # noqa: E402
from program import Program  # noqa: E402

INSTALL_LIMIT_S = 900
START_LIMIT_S = 900


class Product:
    """The three commands: `sarsen new`, `cd`, `sarsen dev`."""

    def __init__(self, template, folder, port):
        self.template = template
        self.folder = folder / "shop"
        self.port = port
        self.site = f"http://localhost:{port}"
        self.seconds = {}
        self._log = folder / "dev.log"
        self._program = None
        path = os.pathsep.join([str(programs_of_node(folder / "programs")), os.environ["PATH"]])
        # The settings of the tests are not those of the server.
        own = {name: value for name, value in os.environ.items() if not name.startswith("SARSEN_")}
        self._environment = {**own, "PATH": path, "PORT": str(port), "NEXT_TELEMETRY_DISABLED": "1"}
        # A back end in Rust compiles for minutes: the next run finds what this one compiled.
        self._environment["CARGO_TARGET_DIR"] = str(ROOT / "target/templates")
        self._environment.pop("VIRTUAL_ENV", None)

    def write(self, *options):
        """Writes it and installs its packages. The port of the site is another one than the template's."""
        began = time.monotonic()
        command = [str(Path(BINARY).resolve()), "new", self.folder.name, "--template", self.template, *options]
        done = subprocess.run(
            command,
            cwd=self.folder.parent,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=INSTALL_LIMIT_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        self.seconds["sarsen new, with its downloads"] = time.monotonic() - began
        self.replace("localhost:3000", f"localhost:{self.port}")
        return done.stdout

    def start(self, *command):
        """Starts it. Gives what `sarsen dev` printed."""
        began = time.monotonic()
        command = [str(Path(BINARY).resolve()), "dev", "--json", "--", *command]
        options = {"cwd": self.folder, "env": self._environment}
        self._program = Program(command, self.port, self._log, limit_s=START_LIMIT_S, **options)
        self.seconds["sarsen dev, until the site answers"] = time.monotonic() - began
        lines = (line for line in self._log.read_text(encoding="utf-8").splitlines() if line.startswith('{"issuer"'))
        return json.loads(next(lines))

    def replace(self, before, after):
        """Edits `sarsen.yaml`."""
        file = self.folder / "sarsen.yaml"
        text = file.read_text(encoding="utf-8")
        assert before in text, f"{before!r} is not in:\n{text}"
        file.write_text(text.replace(before, after), encoding="utf-8")

    def log(self):
        """What the site and the server printed, without the line that has their secrets."""
        text = self._log.read_text(encoding="utf-8", errors="replace") if self._log.exists() else ""
        return "\n".join(line for line in text.splitlines() if not line.startswith('{"issuer"'))

    def stop(self):
        if self._program:
            self._program.stop()
        shutil.rmtree(self.folder, ignore_errors=True)
