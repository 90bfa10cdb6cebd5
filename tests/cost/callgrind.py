"""A demo under callgrind: the instructions that each request takes.

Callgrind writes a dump whenever a handler of `/healthz` has ended. So a request is counted by asking for `/healthz` before
and after it; what `/healthz` itself takes is subtracted.
"""

import re
from pathlib import Path
from urllib.parse import urlsplit

from demo import Demo
from wire import Request, Wire

# The end of a handler's future: a function of its own in every build, because it is called through a table.
MARK = "*drop_in_place*healthz*"


class Counted:
    def __init__(self, folder):
        self._folder = Path(folder)
        options = ["--tool=callgrind", "-q", f"--callgrind-out-file={folder}/counts.%p", f"--dump-before={MARK}"]
        self.demo = Demo(under=["valgrind", *options], limit_s=300)
        self.wire = Wire(urlsplit(self.demo.issuer).port)
        self.wire.connect()
        assert self._dumped() > 0, f"the program has no function like {MARK}"
        self.own = 0

    def calibrate(self):
        """Counts what `/healthz` takes. The server must have nothing else to do."""
        self.own = min(self._mark() for _ in range(20))

    def count(self, request):
        """The instructions of a request, and its answer. What the server does by the clock meanwhile is in them."""
        self._mark()
        answer = self.wire.send(request)
        if not self.wire.is_open():
            # A new connection is no part of the request; it begins with a mark of its own.
            self.wire.connect()
            return self._dumped() - self.own, answer
        return self._mark() - self.own, answer

    def _mark(self):
        """The instructions since the last mark."""
        self.wire.send(Request("GET", "/healthz"))
        return self._dumped()

    def _dumped(self):
        """The instructions in all new dumps: `/healthz` as the counted request makes one of its own."""
        total = 0
        for found in self._folder.glob("counts.*.*"):
            total += int(re.search(r"^totals: (\d+)", found.read_text(encoding="utf-8"), re.MULTILINE)[1])
            found.unlink()
        return total

    def stop(self):
        self.wire.close()
        self.demo.stop()
