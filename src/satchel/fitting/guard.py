"""Marks that keep stored text from being taken for what is ours; each is undone exactly, most text needs none."""

import re

from satchel.fitting.listing import clean

__all__ = [
    "BLOCK_OPENINGS",
    "FENCE_OR_HTML",
    "guarded_line",
    "guarded_tags",
    "one_line",
    "unguarded_line",
    "unguarded_tags",
]

# No second "<" in between: that one is looked at for itself, and a run of them stays linear.
_TAG = re.compile(r"<(?=[^\w<]*+(?:memory|working|conversation|knowledge)\b)", re.IGNORECASE)
_ENTITY = re.compile(r"&(?=(?:amp|lt);)")
_GUARDED_TAG = re.compile(r"&(amp|lt);")

BLOCK_OPENINGS = r"[ \t]*+(?:(?:[-+*]|\d{1,9}[.)])[ \t]++(?=\S)|>[ \t]*+)*+"
"""A pattern of what markdown allows before a heading: blanks, bullets, numbers, signs of quotation."""

FENCE_OR_HTML = r"```|~~~|<(?:/?[a-zA-Z][a-zA-Z0-9-]*(?:[\s/>]|$)|[!?])"
"""A pattern of what opens a block that goes on over lines of any kind."""

_HEADING_OR_RULE = r"#+(?:[ \t]|$)|[-=*_][-=*_ \t]*$"
_STRUCTURE = re.compile(rf"({BLOCK_OPENINGS})(?=\\*(?:{_HEADING_OR_RULE}))")
_GUARDED_STRUCTURE = re.compile(rf"({BLOCK_OPENINGS})\\(?=\\*(?:{_HEADING_OR_RULE}))")


def guarded_tags(text: str) -> str:
    """Without the tags of a memory block; every other sign of the text stays as it is."""
    return _TAG.sub("&lt;", _ENTITY.sub("&amp;", text))


def unguarded_tags(text: str) -> str:
    return _GUARDED_TAG.sub(lambda found: "<" if found[1] == "lt" else "&", text)


def guarded_line(line: str) -> str:
    """With a backslash before what would be a heading, its underline or a rule across the page."""
    found = _STRUCTURE.match(line)
    return f"{found[1]}\\{line[found.end() :]}" if found else line


def unguarded_line(line: str) -> str:
    found = _GUARDED_STRUCTURE.match(line)
    return found[1] + line[found.end() :] if found else line


def one_line(text: str | None) -> str | None:
    """A title or a name without line ends; None where nothing is left."""
    return " ".join(clean(text).split()) or None if text else None
