"""Frames of HTTP/2 as bytes, over TLS, so that every rule can be broken."""

import os
import socket
import ssl
import time

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = 0, 1, 2, 3, 4, 6, 7, 8, 9
END_STREAM, END_HEADERS = 1, 4
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
INITIAL_WINDOW_SIZE = 4


def frame(kind, flags, stream, payload=b""):
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


def fields(path):
    """The fields of a GET, in HPACK: method and scheme by index, path and host as they are."""
    return b"\x82\x87" + literal(0x04, path) + literal(0x01, "localhost")


def literal(name, value):
    return bytes([name, len(value)]) + value.encode()


def get(stream, path):
    return frame(HEADERS, END_STREAM | END_HEADERS, stream, fields(path))


def settings(pairs=()):
    return frame(SETTINGS, 0, 0, b"".join(name.to_bytes(2, "big") + value.to_bytes(4, "big") for name, value in pairs))


class Client:
    """A connection that sends what it is told, and throws away what it receives."""

    def __init__(self, port, pairs=()):
        context = ssl.create_default_context(cafile=os.environ["REQUESTS_CA_BUNDLE"])
        context.set_alpn_protocols(["h2"])
        plain = socket.create_connection(("127.0.0.1", port), timeout=15)
        self._stream = context.wrap_socket(plain, server_hostname="localhost")
        assert self._stream.selected_alpn_protocol() == "h2"
        self._stream.sendall(PREFACE + settings(pairs))

    def send(self, part):
        self._stream.sendall(part)

    def flood(self, part, limit_bytes):
        """Sends the part again and again. Returns how many bytes were sent until the server closed the connection."""
        sent, many = 0, part * max(1, 16_384 // len(part))
        while sent < limit_bytes:
            try:
                self._stream.settimeout(15)
                self._stream.sendall(many)
                sent += len(many)
                self._stream.settimeout(0.0)
                if self._stream.recv(65_536) == b"":
                    return sent
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError, BlockingIOError):
                continue
            except TimeoutError as error:
                raise AssertionError(f"after {sent} bytes the server reads nothing and closes nothing") from error
            except OSError:
                return sent
        raise AssertionError(f"still open after {sent} bytes")

    def await_end(self, limit_s):
        """Waits until the server closes the connection. Returns after how many seconds."""
        begun = time.monotonic()
        self._stream.settimeout(limit_s)
        while time.monotonic() < begun + limit_s:
            try:
                if self._stream.recv(65_536) == b"":
                    break
            except TimeoutError as error:
                raise AssertionError(f"still open after {limit_s} s") from error
            except OSError:
                break
        return time.monotonic() - begun

    def close(self):
        self._stream.close()
