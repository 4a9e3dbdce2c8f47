"""The formats of a context block, by name."""

from typing import Literal, get_args

from satchel.fitting.layout import ReadableLayout
from satchel.fitting.markdown import MARKDOWN
from satchel.fitting.messages import MESSAGES
from satchel.fitting.raw import RAW
from satchel.fitting.system_prompt import SYSTEM_PROMPT

__all__ = ["FORMATS", "LAYOUTS", "Format"]

Format = Literal["system_prompt", "markdown", "raw", "messages"]
FORMATS: tuple[str, ...] = get_args(Format)

LAYOUTS: dict[str, ReadableLayout] = {
    "system_prompt": SYSTEM_PROMPT,
    "markdown": MARKDOWN,
    "raw": RAW,
    "messages": MESSAGES,
}
