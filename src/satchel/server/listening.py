"""Listening addresses: parsing them, the Host and Origin headers to accept, and the socket."""

import socket
from collections.abc import Sequence
from ipaddress import ip_address

from mcp.server.transport_security import TransportSecuritySettings

from satchel.errors import InputError

__all__ = ["WELL_KNOWN", "Address", "check_reach", "listen", "parse_address", "security_of"]

WELL_KNOWN = "/.well-known/"
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
        """The host as written in a URL."""
        return f"[{self[0]}]" if ":" in self[0] else self[0]


def parse_address(value: str) -> Address:
    """Parse an address such as `127.0.0.1:8765`, `localhost:8765` or `[::1]:8765`."""
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


def check_reach(address: Address, *, has_token: bool, remedy: str) -> None:
    """Reject an address that other machines can reach if the server checks no token.

    `remedy` tells the user how to set a token, such as "give one with --token-file".
    """
    if not has_token and not address.is_loopback:
        raise InputError(
            f"other machines can reach {address[0]}, so a token is required; {remedy}, or listen on 127.0.0.1"
        )


def security_of(address: Address, allowed_hosts: Sequence[str] = ()) -> TransportSecuritySettings:
    """Return the Host and Origin headers to accept: the names of this address, and no other web site."""
    named = [*_HERE, *allowed_hosts, address.shown]
    return TransportSecuritySettings(
        allowed_hosts=[form for name in named for form in (name, f"{name}:*")],
        allowed_origins=[
            f"{scheme}://{form}" for name in named for form in (name, f"{name}:*") for scheme in ("http", "https")
        ],
    )


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens on the address; raises `InputError` if that is not possible."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family)
    except (OSError, UnicodeError) as error:
        said = isinstance(error, OSError) and error.strerror
        # `create_server` repeats the address.
        reason = str(said or error).partition(" (while attempting")[0]
        raise InputError(f"cannot listen on {host}:{port}: {reason}") from error
    # asyncio sets this only on sockets with an explicit protocol. Without it, the body of a response waits 40 ms
    # for the client to acknowledge the head.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener
