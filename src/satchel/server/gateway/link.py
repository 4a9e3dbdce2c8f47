"""What a gateway needs of the way to a server, whichever it is."""

from typing import Protocol

from satchel.server.gateway.wire import Message

__all__ = ["Link", "Listener"]


class Listener(Protocol):
    """Who hears what a server says; called on the loop."""

    def heard(self, message: Message) -> None: ...

    def misheard(self, call: int | None, why: str) -> None:
        """Something that is no message; the call it answers, where that can be told."""

    def lost(self, why: str) -> None:
        """There is nothing more to come."""


class Link(Protocol):
    """A way to a server that is open."""

    def send(self, message: Message) -> None:
        """Say something; whoever is gone does not hear it, and `lost` tells."""

    def agreed(self, version: str) -> None:
        """Which version of the protocol holds from now on."""

    async def close(self) -> None:
        """End it, and what it started."""
