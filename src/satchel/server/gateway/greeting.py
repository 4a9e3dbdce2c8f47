"""The gateway's answer to `initialize`, and what a client says in it. Imports next to nothing."""

from typing import Any

from satchel import __version__
from satchel.server.handshake import agreed_version
from satchel.server.jsonrpc import Message

__all__ = ["GUIDE", "initialize_result", "window_told"]

GUIDE = """Tool results too long for the token budget come in pages: result_page(cursor) gives the next one,
result_find(handle, pattern) the matches in the whole; budget_status() tells what is used."""


def initialize_result(params: Message, instructions: str) -> Message:
    """Return the result of `initialize`."""
    return {
        "protocolVersion": agreed_version(params.get("protocolVersion")),
        "capabilities": {
            "tools": {"listChanged": True},
            "resources": {"listChanged": True, "subscribe": True},
            "prompts": {"listChanged": True},
            "logging": {},
            "completions": {},
        },
        "serverInfo": {"name": "satchel-gateway", "version": __version__},
        "instructions": instructions,
    }


def window_told(params: Message) -> int | str | None:
    """Return the context window that a client names, as a number of tokens or as the name of its model.

    The protocol has no field for it, so it is an experimental capability: `{"satchel": {"window": 200000}}` or
    `{"satchel": {"model": "claude-sonnet-5"}}`.
    """
    told: Any = params
    for name in ("capabilities", "experimental", "satchel"):
        told = told.get(name) if isinstance(told, dict) else None
    window = (told.get("window") or told.get("model")) if isinstance(told, dict) else None
    return window if isinstance(window, int | str) and not isinstance(window, bool) else None
