"""Where a server is, and how that is said without the password."""

from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

import psycopg
from psycopg.conninfo import conninfo_to_dict

from satchel.errors import InputError

__all__ = ["Address", "parse_address"]

SCHEMES = ("postgresql", "postgres")
_FORM = "postgresql://USER:PASSWORD@HOST:PORT/DATABASE"


class Address(NamedTuple):
    """How to reach one database of one server."""

    conninfo: str
    shown: str
    """As it may be printed and logged: without a password."""


def parse_address(url: str) -> Address:
    """Read a URL; nothing of one that cannot be read is repeated, since any part of it may be a password."""
    scheme, _, rest = url.partition("://")
    if scheme not in SCHEMES:
        raise InputError(f"stores at {scheme}:// are not known; give a file, ':memory:' or {_FORM}")
    wrong = InputError(
        f"that is no address of a PostgreSQL database: write it as {_FORM}, "
        "with signs such as @ : / ? # % in the password percent-encoded"
    )
    place = rest.partition("/")[0].partition("?")[0]
    # What libpq would take for a host or a port, and name when it does not find it, is the rest of a password.
    if place.count("@") > 1 or ("@" in rest and "@" not in place):
        raise wrong
    try:
        told = conninfo_to_dict(url)
        _ = urlsplit(url).port
    except (psycopg.ProgrammingError, ValueError):
        raise wrong from None
    return Address(url, _shown(told))


def _shown(told: dict[str, Any]) -> str:
    user, host, port = (str(told.get(name) or "") for name in ("user", "host", "port"))
    at = f"{quote(user, safe='')}@" if user else ""
    where = "" if host.startswith("/") else host
    options = f"?host={host}" if host.startswith("/") else ""
    return f"postgresql://{at}{where}{f':{port}' if port else ''}/{told.get('dbname') or ''}{options}"
