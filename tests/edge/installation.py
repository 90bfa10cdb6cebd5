"""`sarsen serve` with a configuration file, on the data of a demo: users, clients and an organization exist."""

import json
import os
import re
import subprocess
from pathlib import Path

import requests
from demo import BINARY
from person import Person
from program import Program

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
START_LIMIT_S = 60


def demo_data(folder):
    """Starts a demo and stops it. Returns its folder, and what it printed."""
    command = [BINARY, "demo", "--json", "--data", str(folder), "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as demo:
        says = json.loads(demo.stdout.readline())
        demo.terminate()
    assert demo.returncode == 0, f"the demo ended with {demo.returncode}"
    return folder, says


class Installation:
    """Has what the helpers of other tests read of a demo: `issuer`, `says`, `client()`, `user()`."""

    def __init__(self, folder, says, issuer, port, **settings):
        self.port, self.says, self._folder, self._program = port, says, folder, None
        self.issuer = issuer or f"https://localhost:{port}"
        settings = {
            "listen": f"127.0.0.1:{port}",
            "issuer": self.issuer,
            "database": "sqlite:demo.db",
            "secret_key_file": "demo.key",
            "request_log": True,
            "log_format": "json",
            **settings,
        }
        lines = [f"{name} = {json.dumps(value)}" for name, value in settings.items()]
        (folder / "sarsen.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")
        self._log = folder / "server.log"

    def start(self):
        # The variables of the tests are no settings of a server.
        own = {name: value for name, value in os.environ.items() if not name.startswith("SARSEN_")}
        self._program = Program([BINARY, "serve"], self.port, self._log, START_LIMIT_S, cwd=self._folder, env=own)

    def stop(self):
        if self._program:
            self._program.stop()
            self._program = None

    def client(self, name):
        return self.says["clients"][name]

    def user(self, name):
        return next(user for user in self.says["users"] if user["email"].startswith(f"{name}@"))

    def administrator(self):
        """The headers of requests that the organization's administrator sends, and the address of its API."""
        login, slug = self.says["organization"]["admin"], self.says["organization"]["slug"]
        device = self._post("device/code", client_id="cli", scope=f"org:{slug}")
        Person(login["email"], login["password"]).walk(f"{self.issuer}/activate", user_code=device["user_code"])
        grant = "urn:ietf:params:oauth:grant-type:device_code"
        token = self._post("token", client_id="cli", grant_type=grant, device_code=device["device_code"])
        return {"Authorization": f"Bearer {token['access_token']}"}, f"{self.issuer}/api/organizations/{slug}"

    def _post(self, endpoint, **fields):
        answer = requests.post(f"{self.issuer}/auth/{endpoint}", data=fields, timeout=15)
        assert answer.ok, answer.text
        return answer.json()

    def log(self):
        return self._log.read_text(encoding="utf-8", errors="replace")

    def requests(self):
        """The lines of the log about requests, as objects."""
        lines = [json.loads(line) for line in self.log().splitlines() if line.startswith("{")]
        return [line for line in lines if line.get("target") == "request"]

    def cpu_s(self):
        """The processor time that the server has used."""
        fields = Path(f"/proc/{self._program.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND

    def peak_mib(self):
        """The most memory that the server has had since the last `forget_peak`."""
        status = Path(f"/proc/{self._program.pid}/status").read_text()
        return int(re.search(r"VmHWM:\s+(\d+)", status)[1]) / 1024

    def resident_mib(self):
        """The memory that the server has now."""
        status = Path(f"/proc/{self._program.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1024

    def forget_peak(self):
        Path(f"/proc/{self._program.pid}/clear_refs").write_text("5")

    def is_running(self):
        return self._program.is_running()
