"""A program that a test starts: it gets a free port, and is stopped by its process id."""

import socket
import subprocess
import time

START_LIMIT_S = 120
STOP_LIMIT_S = 20


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Program:
    """A running program that serves a port."""

    def __init__(self, command, port, log, **options):
        self._log = log
        with open(log, "w", encoding="utf-8") as output:
            self._process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, **options)
        deadline = time.monotonic() + START_LIMIT_S
        while not is_served(port):
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                raise AssertionError(f"{command} does not serve port {port}:\n{self.log()}")
            time.sleep(0.1)

    def log(self):
        return self._log.read_text(encoding="utf-8", errors="replace")[-6000:]

    def stop(self):
        self._process.terminate()
        try:
            self._process.wait(STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def is_served(port):
    with socket.socket() as client:
        client.settimeout(1)
        return client.connect_ex(("127.0.0.1", port)) == 0
