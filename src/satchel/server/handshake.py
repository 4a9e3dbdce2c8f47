"""Versions of the Model Context Protocol, and which of them an `initialize` agrees on."""

from typing import Any

__all__ = ["META", "MODERN_VERSIONS", "PROTOCOL_VERSIONS", "agreed_version"]

PROTOCOL_VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
"""Versions with an `initialize` handshake. Clients with later versions fall back to the last of these."""

MODERN_VERSIONS = ("2026-07-28",)
"""Versions without a handshake: each request has the version and the client's capabilities in its `_meta`."""

META = "io.modelcontextprotocol/"
"""The beginning of the keys in `_meta` that the protocol reserves."""


def agreed_version(proposed: Any) -> str:
    """Return the version that a client proposes, or the newest if that one is not known."""
    return proposed if proposed in PROTOCOL_VERSIONS else PROTOCOL_VERSIONS[-1]
