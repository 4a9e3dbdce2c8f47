"""The lines of one item in a block of text, and the item back from them.

Only the first line stands at the margin: a bullet, the title in bold, who said it, the text. The bullet says how
to read it, at no cost: after "-" a name and a colon are the speaker; after "*" there is no speaker, after "+"
neither speaker nor title, whatever it looks like. So "Decision: use X" needs no mark inside the text. After "-" and
"*" "(older)" says that a newer item of the block tells the same anew.
"""

import itertools
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from satchel.fitting.guard import (
    BLOCK_OPENINGS,
    FENCE_OR_HTML,
    guarded_line,
    guarded_tags,
    one_line,
    unguarded_line,
    unguarded_tags,
)
from satchel.fitting.layout import Parsed
from satchel.fitting.listing import clean
from satchel.model.item import Placed

__all__ = ["BULLETS", "lines", "unlined"]

BULLETS = ("- ", "* ", "+ ")
MORE = "…"
# Said of an item that a newer one in the block overtakes; after "+" it is the text's own.
OLDER = "(older) "

# A backslash counts only before a sign that needs one, so that most titles and names are as they were given.
_IN_TITLE = re.compile(r"\\(?=[\\*]|$)|\*(?=\*|$)")
_IN_SPEAKER = re.compile(r"\\(?=[\\:*(]|$)|:(?= |$)|^\*(?=\*)|^\((?=older\) )")
_ESCAPED_IN_TITLE = re.compile(r"\\([\\*])")
_ESCAPED_IN_SPEAKER = re.compile(r"\\([\\:*(])")
_TITLE = re.compile(rf"\*\*((?:[^*\\]|\\[\\*]|\\|\*(?!\*))++)\*\*(?:: | {MORE}$)")
_SPEAKER = re.compile(r"((?:[^:\\]|\\[\\:*(]|\\|:(?! ))++): ")

_OPENINGS = re.compile(BLOCK_OPENINGS)
_NO_PARAGRAPH = re.compile(rf"{FENCE_OR_HTML}|[|\[]|[-:|\s]+$|(?:\+|\d{{1,9}}[.)])\s*$")


_SIMPLE = re.compile(r"\w(?:[\w,.'()/-]| (?=[\w(]))*")


class _FirstLine(NamedTuple):
    title: str | None
    speaker: str | None
    text: str
    older: bool = False


def lines(placed: Placed) -> str:
    """What stands in the block for an item; where it has no text, its title and a sign that there is more."""
    if (plain := _plain(placed)) is not None:
        return plain
    text = clean(placed.text).strip()
    if not text:
        title = one_line(placed.item.headline()) or ""
        return guarded_tags(f"{BULLETS[0]}{_bold(title)} {MORE}\n")
    first, *others = text.split("\n")
    older = placed.item.overtaken_by is not None
    said = _FirstLine(one_line(placed.item.title), one_line(placed.item.speaker), first, older)
    opening = f"{_bold(said.title)}: " if said.title else ""
    opening += f"{_IN_SPEAKER.sub(_backslash, said.speaker)}: " if said.speaker else ""
    content = guarded_line(opening + first)
    begun = _begun(content, said)
    return guarded_tags("\n".join([begun, *_indented(content, others)]) + "\n")


def _begun(content: str, said: _FirstLine) -> str:
    """The first line with the bullet after which it reads as what is said; without a mark that has no room."""
    marks = (OLDER, "") if said.older else ("",)
    for mark, bullet in itertools.product(marks, BULLETS):
        if _first_line(bullet, mark + content) == said._replace(older=bool(mark)):
            return bullet + mark + content
    raise AssertionError(content)


def _plain(placed: Placed) -> str | None:
    """The same for what needs none of the marks, as most does, in a fraction of the time."""
    title, speaker, text = placed.item.title, placed.item.speaker, placed.text.strip()
    mark = OLDER if placed.item.overtaken_by else ""
    line = f"{f'**{title}**: ' if title else ''}{f'{speaker}: ' if speaker else ''}{text}"
    safe = line.isprintable() and "<" not in line and "&" not in line and text[:1].isalpha()
    safe = safe and (speaker is None or _is_simple(speaker)) and (title is None or _is_simple(title))
    return f"{BULLETS[0]}{mark}{line}\n" if safe and (speaker or ": " not in text) else None


def _is_simple(name: str) -> bool:
    return name.isalnum() or (_SIMPLE.fullmatch(name) is not None)


def unlined(text: str) -> Parsed:
    """The item whose lines these are."""
    first, *others = unguarded_tags(text).strip().split("\n")
    said = _first_line(first[:2], first[2:])
    rest = (unguarded_line(line[1:] if line[1:2].isalpha() else line[2:]) for line in others)
    return Parsed("\n".join([said.text, *rest]), title=said.title, speaker=said.speaker, older=said.older)


def _first_line(bullet: str, content: str) -> _FirstLine:
    older = bullet != "+ " and content.startswith(OLDER)
    rest = unguarded_line(content.removeprefix(OLDER) if older else content)
    title = speaker = None
    if bullet != "+ " and (found := _TITLE.match(rest)):
        title, rest = _ESCAPED_IN_TITLE.sub(r"\1", found[1]), rest[found.end() :]
    if bullet == "- " and (found := _SPEAKER.match(rest)):
        speaker, rest = _ESCAPED_IN_SPEAKER.sub(r"\1", found[1]), rest[found.end() :]
    return _FirstLine(title, speaker, rest, older)


def _indented(first: str, others: Sequence[str]) -> Iterator[str]:
    """The further lines, by two spaces inside the bullet, or by one, which costs nothing before a word.

    Markdown needs only one in a paragraph, which goes on over lines that are indented less. After what may have
    opened a block of code, of HTML, a table or the target of a link, it would take such a line out of the bullet.
    """
    in_block, in_paragraph = _may_open_block(first), _is_paragraph(first)
    for line in others:
        if not line.strip():
            in_paragraph = False
            yield ""
            continue
        content = guarded_line(line)
        yield (" " if in_paragraph and content[0].isalpha() else "  ") + content
        in_block = in_block or _may_open_block(content)
        in_paragraph = not in_block and _is_paragraph(content.lstrip() if in_paragraph else content)


def _may_open_block(line: str) -> bool:
    return _NO_PARAGRAPH.match(line, _content_start(line)) is not None


def _is_paragraph(line: str) -> bool:
    start = _content_start(line)
    before = line[:start]
    # After a tab or five blanks markdown reads code; after a bullet without anything there is no paragraph.
    indented = line[0].isspace() or "\t" in before or "     " in before
    return start < len(line) and not indented and not _may_open_block(line)


def _content_start(line: str) -> int:
    found = _OPENINGS.match(line)
    return found.end() if found else 0


def _bold(title: str) -> str:
    return f"**{_IN_TITLE.sub(_backslash, title)}**"


def _backslash(found: re.Match[str]) -> str:
    return "\\" + found[0]
