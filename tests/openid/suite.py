"""The suite of the OpenID Foundation, as a program on this machine, and its API."""

import json
import os
import time
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlencode

import requests
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509 import load_pem_x509_certificate
from program import Program, free_port

ALIAS = "sarsen"
PASSWORD = "changeit"
START_LIMIT_S = 300
# The longest time of a module. One waits for 30 s before it uses a code again.
MODULE_LIMIT_S = 120
# A module that waits for a person's look at a page is over when the page has come, and nothing else after it.
REVIEW_S = 12
LOOK_EVERY_S = 0.4
ENDED = ("FINISHED", "INTERRUPTED")


class Outcome(NamedTuple):
    module: str
    # PASSED, WARNING, REVIEW, SKIPPED or FAILED; or the status of a module that has not ended.
    result: str
    complaints: list

    def has_failed(self):
        return self.result not in ("PASSED", "WARNING", "REVIEW", "SKIPPED")


def jars_of_database(folder):
    """The folder with the jars of the database in memory."""
    found = sorted(Path(folder).rglob("mongo-java-server-memory-backend-*.jar"))
    assert found, f"{folder} has no jars of de.bwaldvogel:mongo-java-server; see tests/openid/README.md"
    return found[0].parent


def key_store(folder):
    """The certificate and key of an authority (`tls.pem`, `tls.key`) as Java reads them."""
    certificate = load_pem_x509_certificate((folder / "tls.pem").read_bytes())
    key = serialization.load_pem_private_key((folder / "tls.key").read_bytes(), None)
    store = folder / "tls.p12"
    encryption = serialization.BestAvailableEncryption(PASSWORD.encode())
    store.write_bytes(pkcs12.serialize_key_and_certificates(b"suite", key, certificate, None, encryption))
    return store


class Suite:
    def __init__(self, folder, certificates, logs):
        self._database = self._program = None
        self.issuer = f"https://localhost:{free_port()}"
        self._session = requests.Session()
        try:
            self._start(Path(folder).resolve(), key_store(certificates), logs)
        except BaseException:
            self.stop()
            raise

    def _start(self, folder, store, logs):
        port, database = self.issuer.rsplit(":", 1)[1], free_port()
        source = Path(__file__).parent / "Database.java"
        jars = f"{jars_of_database(folder)}/*"
        command = ["java", "-Xmx512m", "-cp", jars, str(source), str(database)]
        self._database = Program(command, database, logs / "database.log")
        classes = f"{folder}/out:{folder}/suite/src/main/resources:{folder}/libs/*"
        settings = {
            "spring.profiles.active": "dev",
            "spring.devtools.restart.enabled": "false",
            "spring.mongodb.uri": f"mongodb://127.0.0.1:{database}/suite",
            "openid.mongodb.targetFeatureCompatibilityVersion": "",
            "server.address": "127.0.0.1",
            "server.port": port,
            "server.ssl.key-store": store,
            "server.ssl.key-store-password": PASSWORD,
            "server.ssl.key-store-type": "PKCS12",
            "fintechlabs.base_url": self.issuer,
            "fintechlabs.base_mtls_url": self.issuer,
            "fintechlabs.devmode": "true",
            "fintechlabs.startredir": "false",
        }
        command = ["java", "-Xmx1500m", "-cp", classes, "net.openid.conformance.Application"]
        command += [f"--{name}={value}" for name, value in settings.items()]
        own = {name: value for name, value in os.environ.items() if not name.startswith("SARSEN_")}
        where = {"cwd": folder / "suite", "env": own}
        self._program = Program(command, int(port), logs / "suite.log", START_LIMIT_S, **where)

    def stop(self):
        for program in (self._program, self._database):
            if program:
                program.stop()

    @property
    def callback(self):
        return f"{self.issuer}/test/a/{ALIAS}/callback"

    @property
    def after_sign_out(self):
        return f"{self.issuer}/test/a/{ALIAS}/post_logout_redirect"

    def run(self, plan, variant, configuration):
        """Runs a plan, one module after the other."""
        made = self._call("POST", "plan", {"planName": plan, "variant": json.dumps(variant)}, configuration)
        for module in made["modules"]:
            outcome = self._run_module(made["id"], module)
            print(f"{outcome.result:9} {outcome.module}", *outcome.complaints, sep="\n    ", flush=True)
            yield outcome

    def _run_module(self, plan, module):
        name, variant = module["testModule"], json.dumps(module.get("variant") or {})
        run = self._call("POST", "runner", {"test": name, "plan": plan, "variant": variant})["id"]
        began, started, info = time.monotonic(), False, {}
        while (took := time.monotonic() - began) < MODULE_LIMIT_S:
            info = self._call("GET", f"info/{run}")
            if info["status"] in ENDED:
                break
            if info["status"] == "CONFIGURED" and not started:
                self._call("POST", f"runner/{run}")
                started = True
            if info["status"] == "WAITING" and took > REVIEW_S and self._waits_for_a_look(run):
                break
            time.sleep(LOOK_EVERY_S)
        log = self._call("GET", f"log/{run}")
        bad = [entry for entry in log if entry.get("result") in ("FAILURE", "WARNING")]
        complaints = [f"{entry['result']} {entry.get('src')}: {entry.get('msg', '')[:300]}" for entry in bad]
        result = info.get("result") or info["status"]
        if info["status"] not in ENDED:
            looks_only = info["status"] == "WAITING" and self._waits_for_a_look(run)
            has_failed = any(entry["result"] == "FAILURE" for entry in bad)
            result = "REVIEW" if looks_only and not has_failed else f"FAILED ({info['status']})"
            self._session.delete(f"{self.issuer}/api/runner/{run}", timeout=60)
        elif info["status"] == "INTERRUPTED":
            result = "FAILED (INTERRUPTED)"
        return Outcome(name, result, complaints)

    def _waits_for_a_look(self, run):
        return any(entry.get("upload") for entry in self._call("GET", f"log/{run}"))

    def _call(self, method, path, query=None, body=None):
        address = f"{self.issuer}/api/{path}" + (f"?{urlencode(query)}" if query else "")
        answer = self._session.request(method, address, json=body, timeout=60)
        assert answer.ok, f"{method} {path}: {answer.status_code} {answer.text[:500]}"
        return answer.json() if answer.content else None
