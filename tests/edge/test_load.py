"""h2load: both protocols under load, and a certificate that is renewed meanwhile."""

import re
import ssl
import subprocess
import threading
import time

import pytest

LIMIT_S = 300
# The server reads the files of its certificate every ten seconds.
RENEWED_LIMIT_S = 30
PATH = "/.well-known/openid-configuration"


def h2load(server, *options, scheme="https"):
    """Requests that succeeded, of how many; and the protocol."""
    command = ["h2load", *options, f"{scheme}://127.0.0.1:{server.port}{PATH}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S)
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    total, failed, errored = (
        int(re.search(rf"requests:.* (\d+) {word}", done.stdout)[1]) for word in ("total", "failed", "errored")
    )
    answered = int(re.search(r"status codes: (\d+) 2xx", done.stdout)[1])
    protocol = re.search(r"Application protocol: (\S+)", done.stdout)
    return answered, total, failed + errored, protocol and protocol[1]


@pytest.mark.parametrize(
    ("options", "protocol"), [(["-m", "20"], "h2"), (["--h1"], "http/1.1")], ids=["http2", "http1"]
)
def test_a_load_over_tls(server, options, protocol):
    assert h2load(server, "-n", "20000", "-c", "50", *options) == (20_000, 20_000, 0, protocol)


def test_a_load_of_http2_without_tls(install):
    plain = install("http://localhost:1")
    plain.start()
    assert h2load(plain, "-n", "20000", "-c", "50", "-m", "20", scheme="http") == (20_000, 20_000, 0, "h2c")


def test_a_certificate_is_renewed_under_load(server, authority, tmp_path):
    """Connections that stay, and connections that are new all the time: no request fails."""
    is_over, rounds = threading.Event(), []

    def connect_again_and_again():
        while not is_over.is_set():
            rounds.append(h2load(server, "-n", "400", "-c", "40", "-m", "5"))

    stays = subprocess.Popen(
        ["h2load", "-D", "45", "-c", "10", "-m", "4", f"https://127.0.0.1:{server.port}{PATH}"],
        stdout=subprocess.PIPE,
        text=True,
    )
    new = threading.Thread(target=connect_again_and_again)
    new.start()
    try:
        for _ in range(2):
            pem, begun = authority.issue(tmp_path), time.monotonic()
            while ssl.get_server_certificate(("127.0.0.1", server.port)) != pem:
                assert time.monotonic() < begun + RENEWED_LIMIT_S, "the new certificate is not used"
                time.sleep(0.2)
    finally:
        is_over.set()
        new.join()
        output, _ = stays.communicate(timeout=LIMIT_S)
    assert len(rounds) > 3 and all(found == (400, 400, 0, "h2") for found in rounds), rounds
    assert re.search(r"requests: .* 0 failed, 0 errored", output), output
    assert int(re.search(r"status codes: (\d+) 2xx, 0 3xx, 0 4xx, 0 5xx", output)[1]) > 1_000, output
