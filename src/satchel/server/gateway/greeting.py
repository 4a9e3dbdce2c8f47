"""How the gateway and its client greet each other."""

from collections.abc import Iterable

import msgspec

from satchel import __version__
from satchel.server.gateway.wire import Message
from satchel.text.cutting import truncate
from satchel.text.tokens.counter import Counter

__all__ = ["Greeting", "greeting_of", "welcome"]

# Up to the last version that begins with a handshake; clients of later ones fall back to it.
VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
MOST_TOKENS = 1_000
_FORWARDED = ("roots", "sampling", "elicitation")

GUIDE = """Tool results too long for the token budget come in pages: result_page(cursor) gives the next one,
result_find(handle, pattern) the matching lines of the whole; budget_status() tells what is left."""


class Greeting(msgspec.Struct, frozen=True, kw_only=True):
    """What a client says of itself, as far as servers need it."""

    version: str = VERSIONS[-1]
    capabilities: Message = {}


def greeting_of(params: Message) -> Greeting:
    version, capabilities = params.get("protocolVersion"), params.get("capabilities")
    known = capabilities if isinstance(capabilities, dict) else {}
    return Greeting(
        version=version if version in VERSIONS else VERSIONS[-1],
        capabilities={name: known[name] for name in _FORWARDED if isinstance(known.get(name), dict)},
    )


def welcome(greeting: Greeting, servers: Iterable[tuple[str, str]], counter: Counter) -> Message:
    """The answer to `initialize`, with what the servers that are ready say about themselves."""
    return {
        "protocolVersion": greeting.version,
        "capabilities": {
            "tools": {"listChanged": True},
            "resources": {"listChanged": True, "subscribe": True},
            "prompts": {"listChanged": True},
            "logging": {},
            "completions": {},
        },
        "serverInfo": {"name": "satchel-gateway", "version": __version__},
        "instructions": _instructions(servers, counter),
    }


def _instructions(servers: Iterable[tuple[str, str]], counter: Counter) -> str:
    said = [f"{name}: {text.strip()}" for name, text in servers if text.strip()]
    if not said:
        return GUIDE
    room = MOST_TOKENS - counter.count(f"{GUIDE}\n\n")
    return f"{GUIDE}\n\n" + truncate("\n\n".join(said), token_budget=room, counter=counter).text
