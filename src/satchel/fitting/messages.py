"""The block for a system prompt as a list of chat messages.

It is one message of the user: a stored turn that became a turn of its own could speak for the model.
"""

from collections.abc import Sequence

import msgspec

from satchel.fitting.as_json import json_inside
from satchel.fitting.layout import Heading, Parsed
from satchel.fitting.system_prompt import SYSTEM_PROMPT
from satchel.model.item import Item, Placed

__all__ = ["MESSAGES", "Messages", "as_messages"]

_OPENING = '[{"role":"user","content":"'
_CLOSING = '"}]\n'


class Messages:
    """The layout of it, valid for OpenAI's and Anthropic's interfaces; every part is escaped as JSON."""

    name = "messages"

    @property
    def around(self) -> str:
        return _OPENING + json_inside(SYSTEM_PROMPT.around) + _CLOSING

    def section(self, item: Item) -> Heading:
        return _escaped(SYSTEM_PROMPT.section(item))

    def group(self, item: Item) -> Heading:
        return _escaped(SYSTEM_PROMPT.group(item))

    def lines(self, placed: Placed) -> str:
        return json_inside(SYSTEM_PROMPT.lines(placed))

    def block(self, placed: Sequence[Placed]) -> str:
        return _OPENING + json_inside(SYSTEM_PROMPT.block(placed)) + _CLOSING if placed else "[]\n"

    def parse(self, text: str) -> list[Parsed]:
        return [item for message in as_messages(text) for item in SYSTEM_PROMPT.parse(message["content"])]


_read = msgspec.json.Decoder(list[dict[str, str]]).decode


def as_messages(text: str) -> list[dict[str, str]]:
    """The messages that a block of this format holds, ready to be sent."""
    return _read(text)


def _escaped(heading: Heading) -> Heading:
    return Heading(heading.key, json_inside(heading.text))


MESSAGES = Messages()
