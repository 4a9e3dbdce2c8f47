"""Certificates for tests of encrypted connections."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

__all__ = ["Authority"]

_DAY = timedelta(days=1)


class Authority:
    """A certificate authority, with its certificate in a file."""

    def __init__(self, folder: Path, name: str) -> None:
        self._name = name
        self._key = ec.generate_private_key(ec.SECP256R1())
        self.file = folder / f"{name}.crt"
        self.file.write_bytes(self._certificate(name, self._key).public_bytes(Encoding.PEM))

    def issue(self, host: str, folder: Path) -> tuple[Path, Path]:
        """Write a certificate for a host name and its key, and return both files."""
        key = ec.generate_private_key(ec.SECP256R1())
        files = folder / f"{host}-{self._name}.crt", folder / f"{host}-{self._name}.key"
        files[0].write_bytes(self._certificate(host, key).public_bytes(Encoding.PEM))
        secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        files[1].touch(mode=0o600)
        files[1].write_bytes(secret)
        return files

    def _certificate(self, name: str, key: ec.EllipticCurvePrivateKey) -> x509.Certificate:
        now = datetime.now(UTC)
        of_authority = name == self._name
        return (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
            .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, self._name)]))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _DAY)
            .not_valid_after(now + _DAY)
            .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
            .add_extension(x509.BasicConstraints(ca=of_authority, path_length=None), critical=True)
            .sign(self._key, hashes.SHA256())
        )
