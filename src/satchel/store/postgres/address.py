"""Where a server is, and how that is said without the password."""

import re
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

import psycopg
from psycopg.conninfo import conninfo_to_dict

from satchel.errors import InputError

__all__ = ["Address", "parse_address"]

SCHEMES = ("postgresql", "postgres")
_FORM = "postgresql://USER@HOST:PORT/DATABASE"
_SCHEME = re.compile(r"[a-z][a-z0-9+-]{0,14}", re.IGNORECASE)
# A password that went astray into another field.
_ASTRAY = re.compile(r"pass(?:word|wd|code)?\s*[=:]", re.IGNORECASE)
# What is repeated beside user, host and database; none of it is secret, and no other address is the same without.
_REPEATED = ("hostaddr", "service", "target_session_attrs", "sslmode", "passfile")
_SECRET = ("password", "sslpassword")


class Address(NamedTuple):
    """How to reach one database of one server."""

    conninfo: str
    shown: str
    """As it may be printed and logged, and used again: without a password."""
    secrets: tuple[str, ...] = ()
    """What must never be printed."""

    def __repr__(self) -> str:
        return f"<Address {self.shown}>"


def parse_address(url: str) -> Address:
    """Read a URL; nothing of one that cannot be read is repeated, since any part of it may be a password."""
    scheme, _, rest = url.partition("://")
    if scheme not in SCHEMES:
        what = f"stores at {scheme}:// are not known; " if _SCHEME.fullmatch(scheme) and rest else ""
        raise InputError(f"{what}a store is a file, ':memory:' or {_FORM}")
    wrong = InputError(
        f"that is no address of a PostgreSQL database: write it as {_FORM}, "
        "with signs such as @ : / ? # % in the password percent-encoded"
    )
    place = rest.partition("/")[0].partition("?")[0]
    # What libpq would take for a host or a port, and name when it does not find it, is the rest of a password.
    if place.count("@") > 1 or ("@" in rest and "@" not in place):
        raise wrong
    try:
        told = {name: str(value) for name, value in conninfo_to_dict(url).items()}
    except (psycopg.ProgrammingError, UnicodeError):
        raise wrong from None
    ports = [port for port in told.get("port", "").split(",") if port]
    open_fields = [value for name, value in told.items() if name not in _SECRET]
    if not all(map(_is_port, ports)) or any(map(_ASTRAY.search, open_fields)):
        raise wrong
    secrets = {value for name in _SECRET if (value := told.get(name))}
    return Address(url, _shown(told), tuple(sorted(secrets | {quote(value, safe="") for value in secrets})))


def _is_port(text: str) -> bool:
    return text.isascii() and text.isdigit() and 0 < int(text[:6]) < 1 << 16


def _shown(told: dict[str, Any]) -> str:
    user, host, port = (told.get(name, "") for name in ("user", "host", "port"))
    at = f"{quote(user, safe='')}@" if user else ""
    hosts, ports = host.split(","), port.split(",")
    options = {name: told[name] for name in _REPEATED if told.get(name)}
    if any(each.startswith(("/", "@")) for each in hosts) or (not host and port):
        where = ""
        options = {"host": host, "port": port} | options
    elif len(ports) == len(hosts):
        where = ",".join(
            f"{_host(one)}:{other}" if other else _host(one) for one, other in zip(hosts, ports, strict=True)
        )
    else:
        where = ",".join(f"{_host(one)}:{port}" for one in hosts)
    asked = urlencode({name: value for name, value in options.items() if value}, safe="/,")
    return f"postgresql://{at}{where}/{quote(told.get('dbname', ''), safe='')}{'?' if asked else ''}{asked}"


def _host(name: str) -> str:
    return f"[{name}]" if ":" in name else quote(name, safe="")
