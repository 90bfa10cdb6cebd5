"""Chromium over TLS: six tabs with a stream each. By HTTP/1.1 the sixth stream would block every other request."""

import json
import os
import subprocess
from pathlib import Path

from oauth import access_token
from person import Person

LIMIT_S = 120
SCRIPT = Path(__file__).with_name("six_tabs.mjs")


def test_six_tabs_have_a_stream_each(server):
    ada = server.user("ada")
    token = access_token(server, server.client("web"), Person(ada["email"], ada["password"]))
    command = [os.environ.get("SARSEN_NODE", "node"), str(SCRIPT), server.issuer]
    done = subprocess.run(command, input=token, capture_output=True, text=True, timeout=LIMIT_S)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"events": ["state"] * 6, "protocol": "h2", "status": 200}
