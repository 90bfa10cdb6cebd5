"""curl, and an answer that it reads line by line."""

import queue
import subprocess
import threading

LIMIT_S = 30


def curl(*options):
    """What curl prints. A failure of curl is one of the test."""
    command = ["curl", "--silent", "--show-error", "--max-time", str(LIMIT_S), *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=2 * LIMIT_S)
    assert done.returncode == 0, f"{command}: {done.stderr}"
    return done.stdout


def seen(url, *options):
    """The status and the version of HTTP, such as `200 2`."""
    return curl("--output", "/dev/null", "--write-out", "%{http_code} %{http_version}", *options, url)


class Stream:
    """The lines of an answer, as they arrive."""

    def __init__(self, url, *options):
        command = ["curl", "--silent", "--show-error", "--no-buffer", *options, url]
        self._curl = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self._lines = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self._curl.stdout:
            self._lines.put(line.rstrip("\n"))
        self._lines.put(None)

    def until(self, line, limit_s):
        """Waits for a line; each one before it must arrive within the limit."""
        while True:
            found = self._lines.get(timeout=limit_s)
            assert found is not None, f"the stream ended before {line!r}"
            if found == line:
                return

    def end(self):
        """Waits for its end."""
        while self._lines.get(timeout=LIMIT_S) is not None:
            pass
        return self._curl.wait(LIMIT_S)

    def close(self):
        self._curl.terminate()
        self._curl.wait(LIMIT_S)
