"""The formats of a context block: system prompt, markdown, chat messages and raw JSON, each with a parser.

A block has a section for each tier, a date line for each day in it, and a bullet for each item. Stored text is
escaped, so it cannot be mistaken for structure.
"""

import itertools
import re
from collections.abc import Hashable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from typing import Any, NamedTuple, Protocol

import msgspec

from satchel.fitting.listing import as_json, clean, json_inside
from satchel.model.memory import TIERS, Tier
from satchel.model.packing import Item, Placed
from satchel.model.patterns import lazy_pattern

__all__ = [
    "BLOCK_OPENINGS",
    "BULLETS",
    "FENCE_OR_HTML",
    "LAYOUTS",
    "MARKDOWN",
    "MESSAGES",
    "RAW",
    "SYSTEM_PROMPT",
    "Days",
    "Ends",
    "Heading",
    "Layout",
    "MessagesLayout",
    "Outline",
    "Parsed",
    "RawLayout",
    "ReadableLayout",
    "as_messages",
    "day_of",
    "escape_line",
    "escape_tags",
    "in_order",
    "in_sections",
    "lines",
    "one_line",
    "parse_lines",
    "unescape_line",
    "unescape_tags",
]


# Escaping of stored text.


# No second "<" may be in between: it gets a match of its own, and a long run of "<" takes linear time.
_TAG = lazy_pattern(r"<(?=[^\w<]*+(?:memory|working|conversation|knowledge)\b)", re.IGNORECASE)
_ENTITY = lazy_pattern(r"&(?=(?:amp|lt);)")
_GUARDED_TAG = lazy_pattern(r"&(amp|lt);")

BLOCK_OPENINGS = r"[ \t]*+(?:(?:[-+*]|\d{1,9}[.)])[ \t]++(?=\S)|>[ \t]*+)*+"
"""Pattern: what markdown allows before a heading on the same line: blanks, bullets, list numbers, `>`."""

FENCE_OR_HTML = r"```|~~~|<(?:/?[a-zA-Z][a-zA-Z0-9-]*(?:[\s/>]|$)|[!?])"
"""Pattern: the beginning of a code fence or an HTML block, which may extend over any lines that follow."""

_HEADING_OR_RULE = r"#+(?:[ \t]|$)|[-=*_][-=*_ \t]*$"
_STRUCTURE = lazy_pattern(rf"({BLOCK_OPENINGS})(?=\\*(?:{_HEADING_OR_RULE}))")
_GUARDED_STRUCTURE = lazy_pattern(rf"({BLOCK_OPENINGS})\\(?=\\*(?:{_HEADING_OR_RULE}))")


def escape_tags(text: str) -> str:
    """Escape whatever looks like a tag of a memory block. Other tags, such as HTML in code, stay as they are."""
    return _TAG.sub("&lt;", _ENTITY.sub("&amp;", text))


def unescape_tags(text: str) -> str:
    """Reverse `escape_tags`."""
    return _GUARDED_TAG.sub(lambda found: "<" if found[1] == "lt" else "&", text)


def escape_line(line: str) -> str:
    """Put a backslash before what markdown would read as a heading, its underline or a horizontal rule."""
    found = _STRUCTURE.match(line)
    return f"{found[1]}\\{line[found.end() :]}" if found else line


def unescape_line(line: str) -> str:
    """Reverse `escape_line`."""
    found = _GUARDED_STRUCTURE.match(line)
    return found[1] + line[found.end() :] if found else line


def one_line(text: str | None) -> str | None:
    """Return a title or a name as one line, without control characters; None if nothing is left."""
    return " ".join(clean(text).split()) or None if text else None


# Order of items: by tier, then by day. Within a day, items of one session stay together.


Days = dict[date | None, list[Placed]]

_START = datetime.min.replace(tzinfo=UTC)


def in_sections(placed: Sequence[Placed]) -> dict[Tier, Days]:
    """Group items by tier and day. Items without a time come first in their tier, in the order given."""
    sections: dict[Tier, Days] = {}
    for each in sorted(placed, key=_by_tier_and_time):
        sections.setdefault(each.item.tier, {}).setdefault(day_of(each.item), []).append(each)
    return {
        tier: {day: _by_thread(items) if day else items for day, items in days.items()}
        for tier, days in sections.items()
    }


def in_order(placed: Sequence[Placed]) -> Iterator[Placed]:
    """Yield items in the order of `in_sections`."""
    for days in in_sections(placed).values():
        for items in days.values():
            yield from items


def day_of(item: Item) -> date | None:
    """Return the date of an item in UTC; None if it has no time."""
    return item.at.date() if item.at else None


def _by_tier_and_time(placed: Placed) -> tuple[int, bool, datetime, str]:
    item = placed.item
    tier = TIERS.index(item.tier)
    return (tier, True, item.at, item.id) if item.at else (tier, False, _START, "")


def _by_thread(placed: Sequence[Placed]) -> list[Placed]:
    threads: dict[Hashable, list[Placed]] = {}
    for each in placed:
        threads.setdefault(each.item.thread, []).append(each)
    return [each for members in threads.values() for each in members]


# The interface of a format.


class Heading(NamedTuple):
    """A heading: a key that is equal for all items below it, and its text. The first of these items pays for it."""

    key: Hashable
    text: str


class Parsed(NamedTuple):
    """An item parsed from a block."""

    text: str
    title: str | None = None
    speaker: str | None = None
    tier: str | None = None
    day: str | None = None
    """The date in ISO 8601."""
    id: str | None = None
    short_id: str | None = None
    kind: str | None = None
    confidence: float | None = None
    older: bool = False
    """Whether the block marks the item as older than another one about the same thing."""


class Layout(Protocol):
    """A format of a block.

    The parts of a block (what is around it, headings, the lines of items) consist of whole lines. Therefore the sum
    of their token counts is at least the token count of the block.
    """

    name: str

    @property
    def around(self) -> str:
        """The text around all items: opening and closing."""

    def section(self, item: Item) -> Heading:
        """Return the section of an item, with the text that opens and closes it."""

    def group(self, item: Item) -> Heading:
        """Return the heading of an item within its section; the text is empty if there is none."""

    def lines(self, placed: Placed) -> str:
        """Return the lines of an item."""

    def block(self, placed: Sequence[Placed]) -> str:
        """Return the whole text, with the items in the order of the format."""


class ReadableLayout(Layout, Protocol):
    """A format that can be parsed."""

    def parse(self, text: str, *, ids: bool = False) -> list[Parsed]:
        """Return the items of a block, in order; `ids` says whether it was made with short ids."""


# The lines of one item in the text formats, and their parser.
#
# Only the first line starts at the margin: a bullet, the title in bold, the speaker, the text. All others are
# indented. The bullet tells the parser what to expect, and costs no extra token:
#
#   "- "  a title and a speaker ("Name: ") are read if present
#   "* "  a title, but no speaker
#   "+ "  neither: everything is text
#
# So a text such as "Decision: use X" needs no escape. After "- " and "* ", "(older) " marks an item that a newer
# item of the block replaces.
#
# An item with a short id has a label directly after the bullet: "- [k3f7 decision] ". Either all items of a block
# have one or none. Stored text comes after the label or is indented, so it cannot show the id of another item.
# The brackets cost one token more than "k3f7 decision: ", but that would read as a speaker.


BULLETS = ("- ", "* ", "+ ")
MORE = "…"
OLDER = "(older) "

# A backslash escapes only before a character that needs it, so most titles and names are written unchanged.
_IN_TITLE = lazy_pattern(r"\\(?=[\\*]|$)|\*(?=\*|$)")
_IN_SPEAKER = lazy_pattern(r"\\(?=[\\:*(]|$)|:(?= |$)|^\*(?=\*)|^\((?=older\) )")
_ESCAPED_IN_TITLE = lazy_pattern(r"\\([\\*])")
_ESCAPED_IN_SPEAKER = lazy_pattern(r"\\([\\:*(])")
_TITLE = lazy_pattern(rf"\*\*((?:[^*\\]|\\[\\*]|\\|\*(?!\*))++)\*\*(?:: | {MORE}$)")
_SPEAKER = lazy_pattern(r"((?:[^:\\]|\\[\\:*(]|\\|:(?! ))++): ")

_OPENINGS = lazy_pattern(BLOCK_OPENINGS)
_NO_PARAGRAPH = lazy_pattern(rf"{FENCE_OR_HTML}|[|\[]|[-:|\s]+$|(?:\+|\d{{1,9}}[.)])\s*$")


_SIMPLE = lazy_pattern(r"\w(?:[\w,.'()/-]| (?=[\w(]))*")

_LABEL = lazy_pattern(r"\[([\w-]+)(?: ([\w-]+))?\] ")
_NOT_IN_LABEL = lazy_pattern(r"[^\w-]+")


class _FirstLine(NamedTuple):
    title: str | None
    speaker: str | None
    text: str
    older: bool = False


def lines(placed: Placed) -> str:
    """Return the lines of an item: a bullet with indented further lines.

    An item without text (level "title") has its title and an ellipsis. `parse_lines` reverses this.
    """
    if (plain := _plain_line(placed)) is not None:
        return plain
    text = clean(placed.text).strip()
    label = _label(placed.item)
    if not text:
        title = one_line(placed.item.headline()) or ""
        return escape_tags(f"{BULLETS[0]}{label}{_bold(title)} {MORE}\n")
    first, *others = text.split("\n")
    older = placed.item.overtaken_by is not None
    fields = _FirstLine(one_line(placed.item.title), one_line(placed.item.speaker), first, older)
    opening = f"{_bold(fields.title)}: " if fields.title else ""
    opening += f"{_IN_SPEAKER.sub(_backslash, fields.speaker)}: " if fields.speaker else ""
    content = escape_line(opening + first)
    first_line = _with_bullet(label, content, fields)
    return escape_tags("\n".join([first_line, *_indented(content, others)]) + "\n")


def _label(item: Item) -> str:
    """Return the short id and the kind in brackets; empty if the item has no short id."""
    if item.short_id is None:
        return ""
    words = (item.short_id, item.kind) if item.kind else (item.short_id,)
    # The kind of a document of another library can be any text.
    return f"[{' '.join(_NOT_IN_LABEL.sub('-', word) for word in words)}] "


def _with_bullet(label: str, content: str, fields: _FirstLine) -> str:
    """Return the first line with the first bullet that makes it parse back to the same fields.

    "(older)" is dropped if no bullet allows it: a text that looks like a title needs "+ ", which has no marks.
    """
    marks = (OLDER, "") if fields.older else ("",)
    for mark, bullet in itertools.product(marks, BULLETS):
        if _parse_first_line(bullet, mark + content) == fields._replace(older=bool(mark)):
            return bullet + label + mark + content
    raise AssertionError(content)


def _plain_line(placed: Placed) -> str | None:
    """Return the line of an item that needs no escaping, as most do; None if it may need some.

    A fast path of `lines`, which gives the same text.
    """
    title, speaker, text = placed.item.title, placed.item.speaker, placed.text.strip()
    mark = OLDER if placed.item.overtaken_by else ""
    line = f"{f'**{title}**: ' if title else ''}{f'{speaker}: ' if speaker else ''}{text}"
    safe = line.isprintable() and "<" not in line and "&" not in line and text[:1].isalpha()
    safe = safe and (speaker is None or _is_simple(speaker)) and (title is None or _is_simple(title))
    safe = safe and (speaker is not None or ": " not in text)
    return f"{BULLETS[0]}{_label(placed.item)}{mark}{line}\n" if safe else None


def _is_simple(name: str) -> bool:
    return name.isalnum() or (_SIMPLE.fullmatch(name) is not None)


def parse_lines(text: str, *, ids: bool = False) -> Parsed:
    """Parse the lines of one item; `ids` says whether it has a label with its short id and kind."""
    first, *others = unescape_tags(text).strip().split("\n")
    bullet, content = first[:2], first[2:]
    label = _LABEL.match(content) if ids else None
    fields = _parse_first_line(bullet, content[label.end() :] if label else content)
    rest = (unescape_line(line[1:] if line[1:2].isalpha() else line[2:]) for line in others)
    return Parsed(
        "\n".join([fields.text, *rest]),
        title=fields.title,
        speaker=fields.speaker,
        short_id=label[1] if label else None,
        kind=label[2] if label else None,
        older=fields.older,
    )


def _parse_first_line(bullet: str, content: str) -> _FirstLine:
    older = bullet != "+ " and content.startswith(OLDER)
    rest = unescape_line(content.removeprefix(OLDER) if older else content)
    title = speaker = None
    if bullet != "+ " and (found := _TITLE.match(rest)):
        title, rest = _ESCAPED_IN_TITLE.sub(r"\1", found[1]), rest[found.end() :]
    if bullet == "- " and (found := _SPEAKER.match(rest)):
        speaker, rest = _ESCAPED_IN_SPEAKER.sub(r"\1", found[1]), rest[found.end() :]
    return _FirstLine(title, speaker, rest, older)


def _indented(first: str, others: Sequence[str]) -> Iterator[str]:
    """Yield the further lines, indented by two spaces, or by one where markdown allows it.

    One space before a word is part of its token and costs nothing. In markdown, a paragraph continues over lines
    with less indentation, so one space is enough there. After the possible start of a code block, HTML, a table or
    a link definition, such a line would leave the bullet, so all lines from there on get two.
    """
    in_block, in_paragraph = _may_open_block(first), _is_paragraph(first)
    for line in others:
        if not line.strip():
            in_paragraph = False
            yield ""
            continue
        content = escape_line(line)
        yield (" " if in_paragraph and content[0].isalpha() else "  ") + content
        in_block = in_block or _may_open_block(content)
        in_paragraph = not in_block and _is_paragraph(content.lstrip() if in_paragraph else content)


def _may_open_block(line: str) -> bool:
    return _NO_PARAGRAPH.match(line, _content_start(line)) is not None


def _is_paragraph(line: str) -> bool:
    start = _content_start(line)
    before = line[:start]
    # Markdown reads code after a tab or five spaces. An empty bullet starts no paragraph.
    indented = line[0].isspace() or "\t" in before or "     " in before
    return start < len(line) and not indented and not _may_open_block(line)


def _content_start(line: str) -> int:
    found = _OPENINGS.match(line)
    return found.end() if found else 0


def _bold(title: str) -> str:
    return f"**{_IN_TITLE.sub(_backslash, title)}**"


def _backslash(found: re.Match[str]) -> str:
    return "\\" + found[0]


# The text formats: a section for each tier, a date line for each day, a bullet for each item.
#
# Only Satchel writes at the margin. Stored text therefore cannot look like a tag, a heading, a date or a footer.


_DATE = lazy_pattern(r"(\d{4}-\d\d-\d\d):")


class Ends(NamedTuple):
    """The lines that open and close a part of a block."""

    opening: str
    closing: str = ""


class Outline:
    """A text format, defined by the lines that open and close the block and its sections."""

    def __init__(self, name: str, *, block: Ends, sections: Mapping[Tier, Ends]) -> None:
        self.name = name
        self._block = block
        self._sections = sections
        self._tiers = {frame.opening.strip(): tier for tier, frame in sections.items()}

    @property
    def around(self) -> str:
        return "".join(self._block)

    def section(self, item: Item) -> Heading:
        return Heading(item.tier, "".join(self._sections[item.tier]))

    def group(self, item: Item) -> Heading:
        day = day_of(item)
        return Heading((item.tier, day), _date_line(day))

    def lines(self, placed: Placed) -> str:
        return lines(placed)

    def block(self, placed: Sequence[Placed]) -> str:
        if not placed:
            return ""
        parts = [self._block.opening]
        for tier, days in in_sections(placed).items():
            frame = self._sections[tier]
            parts.append(frame.opening)
            for place, (day, members) in enumerate(days.items()):
                parts.append(_date_line(day) if place else _date_line(day).lstrip())
                parts += map(lines, members)
            parts.append(frame.closing)
        return "".join([*parts, self._block.closing])

    def parse(self, text: str, *, ids: bool = False) -> list[Parsed]:
        found: list[Parsed] = []
        tier = day = None
        of_item: list[str] = []
        for line in [*text.split("\n"), "end"]:
            if not line or line.startswith(" "):
                of_item += [line] if of_item else []
                continue
            if of_item:
                found.append(parse_lines("\n".join(of_item), ids=ids)._replace(tier=tier, day=day))
                of_item = []
            if line.startswith(BULLETS):
                of_item = [line]
            elif line in self._tiers:
                tier, day = self._tiers[line], None
            elif date_line := _DATE.fullmatch(line):
                day = date_line[1]
        return found


def _date_line(day: date | None) -> str:
    # Without the blank line, which costs no token, markdown reads the date as part of the bullet above. This form
    # costs 7 tokens, "### 2023-05-08" 9.
    return f"\n{day.isoformat()}:\n" if day else ""


MARKDOWN = Outline(
    "markdown",
    block=Ends("## Memory Context\n"),
    sections={
        "working": Ends("\n### Working Memory\n"),
        "conversation": Ends("\n### Conversation\n"),
        "knowledge": Ends("\n### Knowledge\n"),
    },
)


SYSTEM_PROMPT = Outline(
    "system_prompt",
    block=Ends("<memory>\n", "</memory>\n"),
    sections={
        "working": Ends("<working>\n", "</working>\n"),
        "conversation": Ends("<conversation>\n", "</conversation>\n"),
        "knowledge": Ends("<knowledge>\n", "</knowledge>\n"),
    },
)


# The format "raw": a JSON array with one item per line, for programs.


class _RawItem(msgspec.Struct):
    id: str
    text: str
    tier: str
    short_id: str | None = None
    kind: str | None = None
    confidence: float | None = None
    title: str | None = None
    speaker: str | None = None
    at: datetime | None = None
    overtaken_by: str | None = None


_read_raw = msgspec.json.Decoder(list[_RawItem]).decode


class RawLayout:
    """Items as a JSON array: no headings, text as stored, empty fields left out."""

    name = "raw"
    around = "[\n]\n"

    def section(self, item: Item) -> Heading:
        return Heading(None, "")

    def group(self, item: Item) -> Heading:
        return Heading(None, "")

    def lines(self, placed: Placed) -> str:
        return _entry(placed) + ",\n"

    def block(self, placed: Sequence[Placed]) -> str:
        if not placed:
            return "[]\n"
        return "[\n" + ",\n".join(map(_entry, in_order(placed))) + "\n]\n"

    def parse(self, text: str, *, ids: bool = False) -> list[Parsed]:
        return [
            Parsed(
                entry.text,
                title=entry.title,
                speaker=entry.speaker,
                tier=entry.tier,
                day=entry.at.date().isoformat() if entry.at else None,
                id=entry.id,
                short_id=entry.short_id,
                kind=entry.kind,
                confidence=entry.confidence,
                older=entry.overtaken_by is not None,
            )
            for entry in _read_raw(text)
        ]


def _entry(placed: Placed) -> str:
    item = placed.item
    fields: dict[str, Any] = {
        "id": item.id,
        "short_id": item.short_id,
        "text": placed.text,
        "kind": item.kind,
        "confidence": item.confidence,
        "title": item.title if placed.text else item.headline(),
        "speaker": item.speaker,
        "at": item.at,
        "overtaken_by": item.overtaken_by,
        "level": None if placed.level == "full" else placed.level,
        # The tier is last. Its values are fixed, so the end of the last line, which has no comma, is known to
        # cost no more than the end of the others.
        "tier": item.tier,
    }
    return as_json({name: value for name, value in fields.items() if value is not None})


RAW = RawLayout()


# The format "messages": the system prompt block as a list of chat messages.
#
# The list is one user message. If each stored turn became a message, a stored text could speak as the assistant.


_OPENING = '[{"role":"user","content":"'
_CLOSING = '"}]\n'


class MessagesLayout:
    """A block as JSON chat messages, as the APIs of OpenAI and Anthropic take them; each part is JSON-escaped."""

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

    def parse(self, text: str, *, ids: bool = False) -> list[Parsed]:
        contents = (message["content"] for message in as_messages(text))
        return [item for content in contents for item in SYSTEM_PROMPT.parse(content, ids=ids)]


_read_messages = msgspec.json.Decoder(list[dict[str, str]]).decode


def as_messages(text: str) -> list[dict[str, str]]:
    """Parse a block of the format "messages" into a list of messages."""
    return _read_messages(text)


def _escaped(heading: Heading) -> Heading:
    return Heading(heading.key, json_inside(heading.text))


MESSAGES = MessagesLayout()


# Formats by name.


LAYOUTS: dict[str, ReadableLayout] = {
    "system_prompt": SYSTEM_PROMPT,
    "markdown": MARKDOWN,
    "raw": RAW,
    "messages": MESSAGES,
}
