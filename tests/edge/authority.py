"""A certificate authority, and certificates for `localhost`."""

import datetime
import ipaddress

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

DAY = datetime.timedelta(days=1)
KEY_USAGES = [
    "digital_signature",
    "content_commitment",
    "key_encipherment",
    "data_encipherment",
    "key_agreement",
    "key_cert_sign",
    "crl_sign",
    "encipher_only",
    "decipher_only",
]


class Authority:
    def __init__(self, folder):
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = named("The authority of a test")
        usage = x509.KeyUsage(**{name: name == "key_cert_sign" for name in KEY_USAGES})
        builder = self._begin(self._name, self._key).add_extension(x509.BasicConstraints(ca=True, path_length=0), True)
        certificate = builder.add_extension(usage, True).sign(self._key, hashes.SHA256())
        self.file = folder / "authority.pem"
        self.file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))

    def issue(self, folder):
        """Writes `tls.pem` and `tls.key`. Returns the certificate in PEM."""
        key = ec.generate_private_key(ec.SECP256R1())
        names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
        builder = self._begin(named("localhost"), key).add_extension(x509.SubjectAlternativeName(names), False)
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), True)
        pem = builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
        encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
        (folder / "tls.key").write_bytes(key.private_bytes(encoding, form, serialization.NoEncryption()))
        (folder / "tls.pem").write_bytes(pem)
        return pem.decode()

    def _begin(self, subject, key):
        now = datetime.datetime.now(datetime.timezone.utc)
        authority = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        builder = x509.CertificateBuilder().subject_name(subject).issuer_name(self._name).public_key(key.public_key())
        builder = builder.serial_number(x509.random_serial_number())
        builder = builder.not_valid_before(now - DAY).not_valid_after(now + DAY)
        own = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
        return builder.add_extension(own, False).add_extension(authority, False)


def named(text):
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])
