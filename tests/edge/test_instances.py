"""nginx with the file of `deploy` for several instances, in front of two stand-ins that come and go."""

import http.client
import os
import shutil
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from program import Program, free_port
from test_proxies import NGINX, await_that, replaced


class Instance:
    """Answers 200, or ends the connection of a POST after it has received it."""

    def __init__(self):
        self.port, self.posts, self.drops, self._server = free_port(), 0, False, None

    def start(self):
        instance = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def do_POST(self):
                self.rfile.read(int(self.headers["Content-Length"]))
                instance.posts += 1
                if instance.drops:
                    self.close_connection = True
                else:
                    self.do_GET()

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        threading.Thread(target=self._server.serve_forever, args=[0.01], daemon=True).start()

    def stop(self):
        self._server.shutdown()
        self._server.server_close()


def nginx(folder, instances, port):
    pairs = [
        ("10.0.0.11:7070", f"127.0.0.1:{instances[0].port}"),
        ("10.0.0.12:7070", f"127.0.0.1:{instances[1].port}"),
        ("listen 443 ssl http2;", f"listen 127.0.0.1:{port};"),
        ("listen [::]:443 ssl http2;", ""),
        ("listen 80;", f"listen 127.0.0.1:{free_port()};"),
        ("listen [::]:80;", ""),
        ("id.example.com", "localhost"),
    ]
    lines = replaced("nginx-instances.conf", pairs).split("\n")
    (folder / "sarsen.conf").write_text("\n".join(line for line in lines if "ssl_" not in line), encoding="utf-8")
    user = "user root;" if os.geteuid() == 0 else ""
    (folder / "nginx.conf").write_text(NGINX.format(folder=folder, user=user), encoding="utf-8")
    program = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
    return Program([program, "-c", str(folder / "nginx.conf")], port, folder / "output.log")


@pytest.fixture
def proxied(tmp_path):
    instances, port = [Instance(), Instance()], free_port()
    for instance in instances:
        instance.start()
    program = nginx(tmp_path, instances, port)
    await_that(lambda: ask(port, "GET") == 200)
    yield port, instances
    program.stop()


def ask(port, method):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    body = "grant_type=x" if method == "POST" else None
    connection.request(method, "/", body, {"Host": f"localhost:{port}"})
    return connection.getresponse().status


def test_restarts_in_turn_fail_no_request(proxied):
    port, instances = proxied
    for turn in range(10):
        instance = instances[turn % 2]
        instance.stop()
        assert [ask(port, method) for method in ["GET", "POST"] * 10] == [200] * 20, f"restart {turn}"
        instance.start()
    assert sum(instance.posts for instance in instances) == 100


def test_a_request_that_an_instance_has_received_is_not_carried_out_twice(proxied):
    port, instances = proxied
    for instance in instances:
        instance.drops = True
    assert ask(port, "POST") in (502, 503)
    assert sum(instance.posts for instance in instances) == 1
