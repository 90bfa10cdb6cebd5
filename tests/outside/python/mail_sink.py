"""A mail relay and a DNS server on this machine, which a test asks what they saw."""

import asyncio
import datetime
import ipaddress
import socketserver
import ssl
import struct
import threading
from email import message_from_bytes, policy
from pathlib import Path

from aiosmtpd.smtp import SMTP, AuthResult
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

TXT = 16
LIMIT_S = 15


class Sink:
    """Takes mails, or refuses recipients. With a folder it wants encryption, a user and a password."""

    def __init__(self, folder=None, password=None, refusals=None):
        self.envelopes, self._password, self._refusals = [], password, refusals or {}
        options, host = {}, "127.0.0.1"
        if folder is not None:
            # Not the address to which a server sends without encryption.
            host = "127.0.0.2"
            self.authorities, key = certificate(Path(folder), host)
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(self.authorities, key)
            options = {"tls_context": context, "require_starttls": True}
            options |= {"auth_required": True, "authenticator": self._authenticate}
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        listening = self._loop.create_server(lambda: SMTP(self, **options), host, 0)
        self._server = asyncio.run_coroutine_threadsafe(listening, self._loop).result(LIMIT_S)
        self.address = "{}:{}".format(*self._server.sockets[0].getsockname())

    def _authenticate(self, _server, _session, _envelope, _mechanism, credentials):
        good = (credentials.login, credentials.password) == (b"ada", self._password.encode())
        # What is not handled is answered with 535.
        return AuthResult(success=good, handled=good)

    async def handle_RCPT(self, _server, _session, envelope, address, _options):
        if address in self._refusals:
            return self._refusals[address]
        envelope.rcpt_tos.append(address)
        return "250 2.1.5 fine"

    async def handle_DATA(self, _server, _session, envelope):
        self.envelopes.append(envelope)
        return "250 2.0.0 queued as 4711"

    def mails(self):
        """What came, as a mail client reads it."""
        return [message_from_bytes(envelope.content, policy=policy.default) for envelope in self.envelopes]

    def stop(self):
        """Nobody listens there any more."""

        async def close():
            self._server.close()

        asyncio.run_coroutine_threadsafe(close(), self._loop).result(LIMIT_S)
        self._loop.call_soon_threadsafe(self._loop.stop)


def certificate(folder, address):
    """A certificate that signs itself; the paths of it and of its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "relay")])
    now = datetime.datetime.now(datetime.UTC)
    day = datetime.timedelta(days=1)
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - day)
        .not_valid_after(now + day)
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address))]), False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), True)
        .sign(key, hashes.SHA256())
    )
    paths = folder / "relay.pem", folder / "relay.key"
    paths[0].write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    plain = serialization.NoEncryption()
    pem, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    paths[1].write_bytes(key.private_bytes(pem, form, plain))
    return paths


class Dns:
    """Answers for text records."""

    def __init__(self, records):
        class Handler(socketserver.BaseRequestHandler):
            def handle(self):
                question, socket = self.request
                socket.sendto(answer(question, records), self.client_address)

        self._server = socketserver.ThreadingUDPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.address = "{}:{}".format(*self._server.server_address)

    def stop(self):
        self._server.shutdown()
        self._server.server_close()


def answer(question, records):
    """A reply with the records of the name that is asked for."""
    labels, at = [], 12
    while question[at]:
        labels.append(question[at + 1 : at + 1 + question[at]].decode())
        at += 1 + question[at]
    (kind,) = struct.unpack(">H", question[at + 1 : at + 3])
    texts = records.get(".".join(labels).lower(), []) if kind == TXT else []
    reply = question[:2] + struct.pack(">HHHHH", 0x8180, 1, len(texts), 0, 0) + question[12 : at + 5]
    for text in texts:
        # A text of more than 255 bytes is several strings.
        strings = [text[start : start + 255].encode() for start in range(0, len(text), 255)]
        data = b"".join(bytes([len(string)]) + string for string in strings)
        reply += struct.pack(">HHHIH", 0xC00C, TXT, 1, 60, len(data)) + data
    return reply
