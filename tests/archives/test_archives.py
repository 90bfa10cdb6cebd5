"""What a user does with an archive in the first hour."""

import json
import re
import time
from pathlib import Path
from urllib.parse import urlencode

import requests
from machine import LIMIT_S
from person import Person

SETTINGS = """listen = "127.0.0.1:{port}"
issuer = "{issuer}"
database = "sqlite:demo.db"
secret_key_file = "demo.key"
"""
DATA, CONFIG = "/srv/data", "/srv/data/sarsen.toml"


class Server:
    """A demo, or a server on the data of one, until the end of a `with`."""

    def __init__(self, machine, *words):
        self._machine, self._words, self._process = machine, words, machine.start(*words)

    def __enter__(self):
        return self

    def says(self):
        """The line that a demo prints when it is ready."""
        line = self._process.stdout.readline()
        assert line.startswith("{"), f"{self._words} printed {line!r}:\n{self._machine.log()}"
        return json.loads(line)

    def wait_until_ready(self, issuer):
        until = time.monotonic() + LIMIT_S
        while time.monotonic() < until and self._process.poll() is None:
            try:
                if requests.get(f"{issuer}/readyz", timeout=LIMIT_S).ok:
                    return
            except requests.ConnectionError:
                time.sleep(0.05)
        raise AssertionError(f"{self._words} is not ready ({self._process.poll()}):\n{self._machine.log()}")

    def __exit__(self, *_):
        self._process.terminate()
        assert self._process.wait(LIMIT_S) == 0, self._machine.log()
        self._process.stdout.close()


def sign_in(says):
    """Ada signs in at the first product. Gives the address that the product gets a code at."""
    name, client = next((name, client) for name, client in says["clients"].items() if client.get("redirect_uris"))
    callback = client["redirect_uris"][0]
    ada = next(user for user in says["users"] if user["email"].startswith("ada@"))
    query = {"response_type": "code", "client_id": client["client_id"], "redirect_uri": callback, "scope": "openid"}
    person = Person(ada["email"], ada["password"], limit_s=LIMIT_S)
    address = person.walk(f"{says['issuer']}/auth/authorize?{urlencode(query)}", until=callback)
    assert "code=" in address, f"{name}: {address}"


def administrator(says):
    """The headers and the address of the organization's administrator, who signs a terminal in."""
    admin, issuer = says["organization"]["admin"], says["issuer"]
    slug = says["organization"]["slug"]

    def post(endpoint, **fields):
        answer = requests.post(f"{issuer}/auth/{endpoint}", data=fields, timeout=LIMIT_S)
        assert answer.ok, answer.text
        return answer.json()

    device = post("device/code", client_id="cli", scope=f"org:{slug}")
    person = Person(admin["email"], admin["password"], limit_s=LIMIT_S)
    person.walk(f"{issuer}/activate", user_code=device["user_code"])
    grant = "urn:ietf:params:oauth:grant-type:device_code"
    token = post("token", client_id="cli", grant_type=grant, device_code=device["device_code"])
    return {"Authorization": f"Bearer {token['access_token']}"}, f"{issuer}/api/organizations/{slug}"


def test_there_is_no_network_and_no_tool_to_help(machine):
    interfaces = re.findall(r"^\s*(\w+):", Path("/proc/self/net/dev").read_text(), re.MULTILINE)
    assert interfaces == ["lo"]
    assert not (machine.root / "usr/bin/openssl").exists() and not (machine.root / "usr/bin/python3").exists()


def test_the_program_is_the_one_in_the_sums(machine, archive):
    says = json.loads(machine.run("version", "--json"))
    assert says["target"] == machine.target
    sums = (archive.parent / "SHA256SUMS").read_text().splitlines()
    assert f"{says['sha256']}  {machine.stem}/sarsen" in sums
    assert re.fullmatch("[0-9a-f]{40}(-modified)?", says["commit"])


def test_a_demo_signs_in_and_its_data_are_backed_up_and_restored(machine):
    with Server(machine, "demo", "--json", "--data", DATA, "--listen", "127.0.0.1:0") as demo:
        says = demo.says()
        sign_in(says)

    port = says["issuer"].rsplit(":", 1)[1]
    (machine.root / CONFIG[1:]).write_text(SETTINGS.format(port=port, issuer=says["issuer"]))
    with Server(machine, "serve", "--config", CONFIG) as server:
        server.wait_until_ready(says["issuer"])
        headers, organization = administrator(says)
        name = requests.get(organization, headers=headers, timeout=LIMIT_S).json()["name"]
        machine.run("backup", "/srv/backup.db", "--config", CONFIG)
        changed = requests.patch(organization, headers=headers, json={"name": "After"}, timeout=LIMIT_S)
        assert changed.ok, changed.text

    machine.run("check", "/srv/backup.db", "--config", CONFIG)
    machine.run("restore", "/srv/backup.db", "--config", CONFIG)
    with Server(machine, "serve", "--config", CONFIG) as server:
        server.wait_until_ready(says["issuer"])
        headers, organization = administrator(says)
        assert requests.get(organization, headers=headers, timeout=LIMIT_S).json()["name"] == name != "After"
        sign_in(says)
    assert "is damaged" not in machine.run("doctor", "--config", CONFIG)
