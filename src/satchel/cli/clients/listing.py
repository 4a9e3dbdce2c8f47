"""The servers that a client's file lists, whichever form the file has."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from satchel.cli.clients.entry import Entry

__all__ = ["Form", "Listed", "Stretch"]


class Listed(NamedTuple):
    """One server: its name, its text as it stands in the file, what that says, and why it cannot be moved."""

    name: str
    source: str
    value: Any
    fixed: str | None = None


class Stretch(NamedTuple):
    """The part of a file that a move concerns, with the servers in it and with the gateway instead."""

    before: str
    after: str


class Form(Protocol):
    """What JSON and TOML each do in their own way; every text but that of the servers named stays as it is."""

    def listed(self, text: str, *, key: str) -> list[Listed]:
        """The servers of a file, in their order."""

    def alone(self, source: str, *, key: str) -> str:
        """A file with nothing in it but one server of this text."""

    def taken_out(self, text: str, names: Sequence[str], entry: Entry, *, key: str, more: Mapping[str, Any]) -> str:
        """Without some servers, and with an entry in the place of the first of them."""

    def put_back(self, text: str, sources: Mapping[str, str], name: str, *, key: str) -> str:
        """Without the entry of a name, and with servers in its place; at the end if it is not there."""

    def stretch(self, before: str, after: str, *, key: str) -> Stretch:
        """Where two texts differ."""

    def exchanged(
        self, text: str, stretch: Stretch, sources: Mapping[str, str], name: str, *, key: str
    ) -> str | None:
        """With a stretch as it was before, if it is still what it was after."""
