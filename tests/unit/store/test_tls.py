"""TLS and passwords: each problem is one line that says what to do, and no line contains a password.

PgBouncer offers TLS and checks passwords here, because the PostgreSQL of the tests is built without TLS.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import pytest
from psycopg.conninfo import conninfo_to_dict

import satchel
from certificates import Authority
from pg_bouncer import Bouncer, bouncer, needs_pgbouncer
from pg_server import Server
from satchel.errors import StoreError, StoreUnreachableError
from satchel.store.postgres.connection import parse_address

pytestmark = [needs_pgbouncer, pytest.mark.slow]

PASSWORD = "s3cret"
WRONG = "wr0ng"
NO_PASSWORD = (
    "refuses: no password supplied; put the password into ~/.pgpass (or passfile=FILE), which only its owner may "
    "read, or into PGPASSWORD"
)
NO_TLS = (
    "cannot be reached safely: server does not support SSL; set up TLS on the server; only on a network that you "
    "trust leave sslmode out"
)
TO_LOG_IN = "check the login, the database and, for passwords, ~/.pgpass"
AUTHORITY = "sslrootcert must name the authority that signed the server's certificate"
CLIENT = "sslcert and sslkey must name a client certificate that the server accepts, and its key"


class Encrypted(NamedTuple):
    """A PgBouncer with TLS and passwords, one that asks for client certificates, and files for their clients."""

    folder: Path
    by_password: Bouncer
    by_certificate: Bouncer


@pytest.fixture(scope="module")
def encrypted(pg: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Encrypted]:
    folder = tmp_path_factory.mktemp("tls")
    right, other = Authority(folder, "right"), Authority(folder, "other")
    certificate, key = right.issue("localhost", folder)
    for authority in (right, other):
        authority.issue("postgres", folder)
    shutil.copy(folder / "postgres-right.key", folder / "open.key")
    (folder / "open.key").chmod(0o644)
    for name, password, mode in (
        ("pass", PASSWORD, 0o600),
        ("pass-wrong", WRONG, 0o600),
        ("pass-open", PASSWORD, 0o644),
    ):
        (folder / name).write_text(f"*:*:*:postgres:{password}\n")
        (folder / name).chmod(mode)
    with TemporaryDirectory(prefix="satchel-tls-", dir="/tmp") as theirs:
        # Where the user that PgBouncer runs as may read them.
        Path(theirs).chmod(0o755)
        for file in (certificate, key, right.file):
            Path(shutil.copy(file, theirs)).chmod(0o644)
        tls = {
            "client_tls_sslmode": "require",
            "client_tls_cert_file": f"{theirs}/{certificate.name}",
            "client_tls_key_file": f"{theirs}/{key.name}",
        }
        strict = {**tls, "client_tls_sslmode": "verify-full", "client_tls_ca_file": f"{theirs}/{right.file.name}"}
        with (
            bouncer(pg, {**tls, "auth_type": "scram-sha-256"}, users=f'"postgres" "{PASSWORD}"\n') as one,
            bouncer(pg, strict) as two,
        ):
            yield Encrypted(folder, one, two)


def refused(url: str) -> str:
    """Return what is said when a store cannot be opened, for certain and at once."""
    with pytest.raises(StoreError) as caught:
        satchel.open(url)
    said = str(caught.value)
    assert not isinstance(caught.value, StoreUnreachableError), said
    assert said.startswith(f"{parse_address(url).shown} ")
    assert "\n" not in said
    assert PASSWORD not in said
    assert WRONG not in said
    return said.removeprefix(f"{parse_address(url).shown} ")


def test_a_server_is_checked_by_its_certificate(encrypted: Encrypted, pg_url: str):
    folder, place = encrypted.folder, encrypted.by_password

    def url(options: str, host: str = "localhost", login: str = f"postgres:{PASSWORD}") -> str:
        return place.url(pg_url, login=login, host=host, options=f"?{options}")

    safe = f"sslmode=verify-full&sslrootcert={folder}/right.crt"
    with satchel.open(url(safe)) as bag:
        kept = bag.add("stored over TLS")
        # The address that is shown leads to the same server, with the password from elsewhere.
        shown = bag._store.location
    assert "sslrootcert" in shown
    with satchel.open(f"{shown}&passfile={folder}/pass") as bag:
        assert bag.get(kept.id).text == "stored over TLS"
    assert refused(url(f"sslmode=verify-full&sslrootcert={folder}/other.crt")) == (
        f"cannot be reached safely: certificate verify failed; {AUTHORITY}"
    )
    assert refused(url(safe, host="127.0.0.1")) == (
        'cannot be reached safely: server certificate for "localhost" (and 1 other name) does not match host name '
        '"127.0.0.1"; use a host name of the certificate in the address'
    )
    assert refused(url(f"sslmode=verify-full&sslrootcert={folder}/none.crt")) == (
        f'cannot be reached safely: root certificate file "{folder}/none.crt" does not exist; name the certificate '
        "of the authority by sslrootcert=FILE, or sslrootcert=system for those of the system"
    )
    assert refused(url("sslmode=disable")) == (
        "refuses: SSL required; add sslmode=verify-full and sslrootcert=FILE to the address"
    )
    assert refused(url("sslmode=full")) == (
        'is no usable address: invalid sslmode value: "full"; correct this option of it'
    )


def test_a_password_comes_from_the_address_or_a_file(
    encrypted: Encrypted, pg_url: str, monkeypatch: pytest.MonkeyPatch
):
    folder, place = encrypted.folder, encrypted.by_password
    monkeypatch.setenv("HOME", str(folder))

    def url(options: str = "", login: str = "postgres") -> str:
        return place.url(pg_url, login=login, host="localhost", options=f"?sslmode=require{options}")

    satchel.open(url(f"&passfile={folder}/pass")).close()
    rejected = f"refuses: SASL authentication failed; {TO_LOG_IN}"
    assert refused(url(login=f"postgres:{WRONG}")) == rejected
    assert refused(url(login=f"somebody:{PASSWORD}")) == rejected
    assert refused(url(f"&passfile={folder}/pass-wrong")) == rejected
    for without in ("", f"&passfile={folder}/none", f"&passfile={folder}/pass-open"):
        assert refused(url(without)) == NO_PASSWORD


def test_a_service_file_names_server_login_and_password(
    encrypted: Encrypted, pg_url: str, monkeypatch: pytest.MonkeyPatch
):
    services = encrypted.folder / "services.conf"
    database = conninfo_to_dict(pg_url)["dbname"]
    services.write_text(
        f"[memory]\nhost=localhost\nport={encrypted.by_password.port}\ndbname={database}\nuser=postgres\n"
        f"password={PASSWORD}\nsslmode=verify-full\nsslrootcert={encrypted.folder}/right.crt\n"
    )
    monkeypatch.setenv("PGSERVICEFILE", str(services))
    with satchel.open("postgresql://?service=memory") as bag:
        assert bag.add("stored through a service").text == "stored through a service"
        assert PASSWORD not in repr(bag)
    assert refused("postgresql:///?service=nobody") == (
        'cannot be found: definition of service "nobody" not found; write the service into ~/.pg_service.conf, or '
        "name its file in PGSERVICEFILE"
    )


def test_a_client_shows_its_certificate(encrypted: Encrypted, pg_url: str):
    folder = encrypted.folder

    def url(options: str) -> str:
        options = f"?sslmode=verify-full&sslrootcert={folder}/right.crt{options}"
        return encrypted.by_certificate.url(pg_url, host="localhost", options=options)

    with satchel.open(url(f"&sslcert={folder}/postgres-right.crt&sslkey={folder}/postgres-right.key")) as bag:
        shown = bag._store.location
    satchel.open(shown).close()
    assert refused(url("")) == f"cannot be reached safely: alert certificate required; {CLIENT}"
    assert refused(url(f"&sslcert={folder}/postgres-other.crt&sslkey={folder}/postgres-other.key")) == (
        f"cannot be reached safely: alert unknown ca; {CLIENT}"
    )
    for key, said in (
        ("open.key", f'private key file "{folder}/open.key" has group or world access'),
        ("none.key", f'certificate present, but not private key file "{folder}/none.key"'),
    ):
        assert refused(url(f"&sslcert={folder}/postgres-right.crt&sslkey={folder}/{key}")) == (
            f"cannot be reached safely: {said}; sslcert and sslkey must name a certificate and its key, which only "
            "its owner may read"
        )


def test_a_server_without_tls_is_not_trusted(pg: Server, encrypted: Encrypted):
    for options in ("sslmode=require", f"sslmode=verify-full&sslrootcert={encrypted.folder}/right.crt"):
        assert refused(f"{pg.dsn(tcp=True)}?{options}") == NO_TLS
