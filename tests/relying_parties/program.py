"""A program that a test starts: it gets a free port, and is stopped with the processes that it started."""

import os
import signal
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

    def __init__(self, command, port, log, limit_s=START_LIMIT_S, **options):
        self._log = log
        with open(log, "w", encoding="utf-8") as output:
            streams = {"stdin": subprocess.DEVNULL, "stdout": output, "stderr": subprocess.STDOUT}
            self._process = subprocess.Popen(command, start_new_session=True, **streams, **options)
        deadline = time.monotonic() + limit_s
        while not is_served(port):
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                raise AssertionError(f"{command} does not serve port {port}:\n{self.log()}")
            time.sleep(0.1)

    @property
    def pid(self):
        return self._process.pid

    def is_running(self):
        return self._process.poll() is None

    def log(self):
        return self._log.read_text(encoding="utf-8", errors="replace")[-6000:]

    def stop(self):
        self._signal(signal.SIGTERM)
        try:
            self._process.wait(STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            self._signal(signal.SIGKILL)
            self._process.wait()

    def _signal(self, number):
        """Sends a signal to the program's process group, which is its own."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, number)


def is_served(port):
    with socket.socket() as client:
        client.settimeout(1)
        return client.connect_ex(("127.0.0.1", port)) == 0
