"""`sarsen mail test` and `sarsen doctor` against a relay of another language, and mails as a MIME parser reads them."""

import json
import os
import socket
import subprocess

import pytest
import requests
from demo import BINARY
from mail_sink import Dns, Sink

LIMIT_S = 60


@pytest.fixture
def dns():
    server = Dns(
        {
            "example.com": ["v=spf1 include:_spf.relay.example -all", "unrelated"],
            "_dmarc.example.com": ["v=DMARC1; p=reject"],
            "s1._domainkey.example.com": ["v=DKIM1; k=rsa; p=" + "A" * 400],
        }
    )
    yield server
    server.stop()


def sarsen(folder, *arguments, **settings):
    """What a command says with these settings."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SARSEN_")}
    environment |= {name if name.isupper() else f"SARSEN_{name.upper()}": value for name, value in settings.items()}
    command = [BINARY, *arguments]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=LIMIT_S)
    return done.returncode, done.stdout, done.stderr


def try_out(folder, **settings):
    """The exit code of a test mail, and what it says about each part."""
    code, out, err = sarsen(folder, "mail", "test", "--to", "ada@example.com", "--json", **settings)
    assert out.startswith("["), err
    return code, {found["check"]: (found["state"], found["says"]) for found in json.loads(out)}


def test_a_relay_with_encryption_and_a_password_takes_a_mail(tmp_path, dns):
    sink = Sink(folder=tmp_path, password="pass word")
    (tmp_path / "password").write_text("pass word\n")
    settings = {
        "smtp_url": f"smtp://ada@{sink.address}",
        "smtp_password_file": "password",
        "mail_from": "Bücher <mail@example.com>",
        "mail_dkim_selector": "s1",
        "outgoing_allow": sink.address,
        "dns_servers": dns.address,
        "SSL_CERT_FILE": str(sink.authorities),
    }
    code, says = try_out(tmp_path, **settings)
    assert (code, {check: state for check, (state, _) in says.items()}) == (
        0,
        {"relay": "ok", "spf": "ok", "dmarc": "ok", "dkim": "ok"},
    ), says
    assert says["relay"][1].endswith("2.0.0 queued as 4711")
    (envelope,), (mail,) = sink.envelopes, sink.mails()
    assert (envelope.mail_from, envelope.rcpt_tos) == ("mail@example.com", ["ada@example.com"])
    assert mail["from"] == "Bücher <mail@example.com>" and mail["to"] == "ada@example.com"
    assert mail["auto-submitted"] == "auto-generated"
    assert mail["message-id"].endswith("@example.com>") and mail["date"].datetime
    assert mail.get_content_type() == "text/plain" and "They work." in mail.get_content()
    assert not mail.defects

    (tmp_path / "wrong").write_text("guessed\n")
    code, says = try_out(tmp_path, **settings | {"smtp_password_file": "wrong"})
    assert code == 1 and says["relay"][0] == "fail" and "refuses user and password (535" in says["relay"][1]
    code, says = try_out(tmp_path, **settings | {"SSL_CERT_FILE": ""})
    assert code == 1 and "set SSL_CERT_FILE" in says["relay"][1], says
    for said in (says, sarsen(tmp_path, "serve", "--print-config", **settings)):
        assert "pass word" not in str(said) and "guessed" not in str(said)
    assert len(sink.envelopes) == 1
    sink.stop()


def test_a_relay_that_refuses_the_recipient_is_quoted(tmp_path):
    sink = Sink(refusals={"ada@example.com": "550 5.1.1 ada does not live here"})
    settings = {"smtp_url": f"smtp://{sink.address}", "mail_from": "mail@localhost"}
    code, says = try_out(tmp_path, **settings, outgoing_allow=sink.address)
    assert code == 1 and says["relay"][0] == "fail"
    assert "refuses the recipient (550 5.1.1), and writes: 5.1.1 ada does not live here" in says["relay"][1]
    assert says["spf"][0] == "warn", "localhost is no domain that others know"

    code, says = try_out(tmp_path, **settings)
    assert code == 1 and "outgoing_allow must list" in says["relay"][1], says
    sink.stop()
    code, says = try_out(tmp_path, **settings, outgoing_allow=sink.address)
    assert code == 1 and "no connection to 127.0.0.1" in says["relay"][1], says


def test_doctor_says_what_is_missing_without_sending_anything(tmp_path, dns):
    def mail(**settings):
        _, out, err = sarsen(tmp_path, "doctor", "--json", **settings)
        assert out.startswith("["), err
        checks = {found["check"]: (found["state"], found["says"]) for found in json.loads(out)}
        return [checks.get(check, ("", "")) for check in ("mail", "spf", "dmarc", "dkim")]

    assert mail()[0] == ("ok", "smtp_url is not set, so the server sends no mail")
    sink = Sink()
    settings = {"smtp_url": f"smtp://{sink.address}", "outgoing_allow": sink.address, "dns_servers": dns.address}
    found = mail(**settings, mail_from="mail@example.com")
    assert [state for state, _ in found] == ["ok", "ok", "ok", ""]
    assert found[0][1].endswith("takes mails from mail@example.com; sarsen mail test sends one")
    found = mail(**settings, mail_from="mail@elsewhere.example", mail_dkim_selector="s1")
    assert [state for state, _ in found] == ["ok", "warn", "warn", "fail"]
    assert "v=DMARC1; p=none at _dmarc.elsewhere.example" in found[2][1]
    assert not sink.envelopes
    sink.stop()


def test_doctor_does_not_wait_for_a_relay_and_a_dns_server_that_say_nothing(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as relay, socket.socket(type=socket.SOCK_DGRAM) as names:
        names.bind(("127.0.0.1", 0))
        relay, names = ("{}:{}".format(*silent.getsockname()) for silent in (relay, names))
        settings = {"smtp_url": f"smtp://{relay}", "outgoing_allow": relay, "mail_from": "mail@example.com"}
        _, out, _ = sarsen(tmp_path, "doctor", **settings, dns_servers=names)
    assert "fail  mail           no result within 5 seconds" in out, out
    for check in ("spf", "dmarc"):
        assert f"warn  {check:<13}  example.com cannot be looked up" in out, out


def test_a_demo_keeps_its_mails_and_a_server_has_no_such_page(demo):
    assert requests.get(f"{demo.issuer}/dev/mail.json", timeout=15).json() == []
    assert "/dev/mail" in requests.get(demo.issuer, timeout=15).text
