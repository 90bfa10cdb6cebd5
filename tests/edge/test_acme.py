"""Pebble, the ACME server of Let's Encrypt for tests: a certificate, its renewal, and the cache after a restart."""

import json
import os
import shutil
import ssl
import stat
import time
from pathlib import Path

import pytest
import requests
from curl import seen
from program import Program, free_port

NAME = "id.sarsen.test"
# The server renews after two thirds of it.
VALID_S = 45
ISSUED_LIMIT_S = 60


@pytest.fixture
def pebble(authority, tmp_path):
    """Starts a name server that gives 127.0.0.1 for every name, and Pebble with certificates that live for seconds."""
    programs = []

    def start(tls_port):
        names, folder = free_port(), tmp_path / "pebble"
        folder.mkdir()
        authority.issue(folder)
        off = [f"-{name}=" for name in ("http01", "https01", "tlsalpn01", "doh", "defaultIPv6")]
        management = free_port()
        command = [go("pebble-challtestsrv"), *off, "-defaultIPv4", "127.0.0.1"]
        command += ["-dnsserver", f"127.0.0.1:{names}", "-management", f"127.0.0.1:{management}"]
        programs.append(Program(command, management, folder / "names.log"))
        directory, management = free_port(), free_port()
        settings = {
            "listenAddress": f"127.0.0.1:{directory}",
            "managementListenAddress": f"127.0.0.1:{management}",
            "certificate": str(folder / "tls.pem"),
            "privateKey": str(folder / "tls.key"),
            "httpPort": free_port(),
            "tlsPort": tls_port,
            "profiles": {"default": {"description": "short", "validityPeriod": VALID_S}},
        }
        (folder / "pebble.json").write_text(json.dumps({"pebble": settings}), encoding="utf-8")
        command = [go("pebble"), "-config", str(folder / "pebble.json"), "-dnsserver", f"127.0.0.1:{names}"]
        environment = {**os.environ, "PEBBLE_VA_NOSLEEP": "1"}
        programs.append(Program(command, directory, folder / "pebble.log", env=environment))
        return f"https://localhost:{directory}/dir", f"https://localhost:{management}/roots/0"

    def stop():
        while programs:
            programs.pop().stop()

    yield start, stop
    stop()


def go(program):
    folder = Path(os.environ.get("SARSEN_GO", ""))
    return str(folder / program) if (folder / program).is_file() else shutil.which(program)


def test_a_certificate_is_issued_renewed_and_kept(install, pebble, tmp_path, monkeypatch):
    start, stop = pebble
    port = free_port()
    directory, root = start(port)
    server = install(
        f"https://{NAME}:{port}",
        listen=f"127.0.0.1:{port}",
        acme_domains=[NAME],
        acme_email="ada@sarsen.test",
        acme_directory=directory,
        acme_cache="certificates",
    )
    server.port = port
    server.start()
    await_line(server, "the TLS certificate was replaced")
    (tmp_path / "root.pem").write_text(requests.get(root, timeout=15).text, encoding="utf-8")
    monkeypatch.setenv("CURL_CA_BUNDLE", str(tmp_path / "root.pem"))
    assert healthy(port) == "200 2"

    folder = tmp_path / "server/certificates"
    modes = {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}
    assert (stat.S_IMODE(folder.stat().st_mode), modes) == (0o700, {0o600})

    first = certificate(port)
    deadline = time.monotonic() + VALID_S
    while certificate(port) == first:
        assert time.monotonic() < deadline, "not renewed"
        assert healthy(port) == "200 2"
        time.sleep(0.2)
    assert healthy(port) == "200 2"

    renewed = certificate(port)
    stop()
    server.stop()
    server.start()
    await_line(server, "the TLS certificate was read")
    assert healthy(port) == "200 2" and certificate(port) == renewed


def healthy(port):
    return seen(f"https://{NAME}:{port}/healthz", "--resolve", f"{NAME}:{port}:127.0.0.1", "--http2")


def certificate(port):
    return ssl.get_server_certificate(("127.0.0.1", port))


def await_line(server, text):
    deadline = time.monotonic() + ISSUED_LIMIT_S
    while text not in server.log():
        assert time.monotonic() < deadline and server.is_running(), server.log()
        time.sleep(0.1)
