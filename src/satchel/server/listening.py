"""Where a server listens: addresses, the names it may be asked by, and its socket."""

import socket
from collections.abc import Sequence
from ipaddress import ip_address

from mcp.server.transport_security import TransportSecuritySettings

from satchel.errors import InputError

__all__ = ["Address", "listen", "parse_address", "security_of"]

_HERE = ("127.0.0.1", "localhost", "[::1]")


class Address(tuple[str, int]):
    """A host and a port to listen on."""

    @property
    def is_loopback(self) -> bool:
        if self[0] == "localhost":
            return True
        try:
            return ip_address(self[0]).is_loopback
        except ValueError:
            return False

    @property
    def shown(self) -> str:
        """The host as a URL has it."""
        return f"[{self[0]}]" if ":" in self[0] else self[0]


def parse_address(value: str) -> Address:
    """Read an address such as `127.0.0.1:8765`, `localhost:8765` or `[::1]:8765`."""
    host, _, port = value.strip().rpartition(":")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if (
        not bare
        or not port.isascii()
        or not port.isdigit()
        or int(port) > 65535
        or ("[" not in host and ":" in host)
    ):
        raise InputError(f"--http {value!r} is not HOST:PORT; write it as 127.0.0.1:8765 or [::1]:8765")
    return Address((bare, int(port)))


def security_of(address: Address, allowed_hosts: Sequence[str] = ()) -> TransportSecuritySettings:
    """The Host and Origin headers to accept: the names of this address, and no web page of another site."""
    named = [*_HERE, *allowed_hosts, address.shown]
    return TransportSecuritySettings(
        allowed_hosts=[form for name in named for form in (name, f"{name}:*")],
        allowed_origins=[
            f"{scheme}://{form}" for name in named for form in (name, f"{name}:*") for scheme in ("http", "https")
        ],
    )


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens on the address; raises `InputError` if it cannot."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family)
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise InputError(f"cannot listen on {host}:{port}: {reason or error}") from error
    # asyncio does so only where a socket names its protocol: the body of an answer waited for the client's
    # acknowledgement of its head, which is 40 ms.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener
