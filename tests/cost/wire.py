"""Requests as bytes over one connection, so that nothing helps or hides."""

import json
import socket
from dataclasses import dataclass, field, replace
from urllib.parse import urlencode

# Under valgrind everything takes fifty times as long.
LIMIT_S = 120


@dataclass
class Request:
    method: str
    path: str
    headers: list = field(default_factory=list)
    # A list of pairs (a form), anything else that JSON can hold, bytes, or None.
    body: object = None
    media_type: str = ""

    def with_header(self, name, value):
        return replace(self, headers=[pair for pair in self.headers if pair[0] != name] + [(name, value)])

    def with_body(self, body, media_type=None):
        return replace(self, body=body, media_type=media_type or self.media_type)

    def is_form(self):
        return self.media_type.endswith("form-urlencoded")

    def payload(self):
        if self.body is None or isinstance(self.body, bytes):
            return self.body or b""
        return (urlencode(self.body) if self.is_form() else json.dumps(self.body)).encode()

    def bytes(self, port):
        payload = self.payload()
        lines = [f"{self.method} {self.path} HTTP/1.1"]
        if not any(name == "host" for name, _ in self.headers):
            lines.append(f"host: localhost:{port}")
        lines += [f"{name}: {value}" for name, value in self.headers]
        if self.media_type and not any(name == "content-type" for name, _ in self.headers):
            lines.append(f"content-type: {self.media_type}")
        if payload or self.method not in ("GET", "HEAD", "DELETE"):
            lines.append(f"content-length: {len(payload)}")
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1") + payload


@dataclass
class Answer:
    # 0: the server has closed the connection without one.
    status: int
    headers: dict
    body: bytes

    def json(self):
        return json.loads(self.body)


class Wire:
    """A connection that is kept as long as the server keeps it."""

    def __init__(self, port):
        self._port = port
        self._stream = None

    def connect(self):
        """Opens a connection unless there is one, and waits until the server has accepted it."""
        if self._stream is None:
            self._stream = socket.create_connection(("127.0.0.1", self._port), timeout=LIMIT_S)
            self._stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._lines = self._stream.makefile("rb")
            self.send(Request("GET", "/healthz"))

    def send(self, request):
        return self.send_bytes(request.bytes(self._port))

    def send_bytes(self, request):
        self.connect()
        try:
            # The server may answer and close before it has read all.
            self._stream.sendall(request)
        except OSError:
            pass
        answer = self._read()
        # After these it closes: it has not read the request to its end.
        if answer.headers.get("connection") == "close" or answer.status in (0, 400, 408, 413, 414, 431):
            self.close()
        return answer

    def is_open(self):
        return self._stream is not None

    def close(self):
        if self._stream is not None:
            self._lines.close()
            self._stream.close()
            self._stream = None

    def _read(self):
        try:
            head = self._lines.readline().split(b" ")
            headers = {}
            while (line := self._lines.readline().strip()) and b":" in line:
                name, value = line.split(b":", 1)
                headers[name.decode().lower()] = value.strip().decode("latin-1")
            body = self._lines.read(int(headers.get("content-length", 0)))
            return Answer(int(head[1]) if len(head) > 1 else 0, headers, body)
        except OSError:
            return Answer(0, {}, b"")
