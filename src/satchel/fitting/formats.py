"""The formats of a context block: system prompt, markdown, chat messages, raw JSON; each can be read back.

A block has sections for tiers, in them days, under each day a bullet for each item. Stored text is escaped so
that it cannot be mistaken for structure.
"""

import itertools
import re
from collections.abc import Hashable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from typing import Any, Literal, NamedTuple, Protocol, get_args

import msgspec

from satchel.fitting.listing import as_json, clean, json_inside
from satchel.model.memory import TIERS, Tier
from satchel.model.packing import Item, Placed

__all__ = [
    "BLOCK_OPENINGS",
    "BULLETS",
    "FENCE_OR_HTML",
    "FORMATS",
    "LAYOUTS",
    "MARKDOWN",
    "MESSAGES",
    "RAW",
    "SYSTEM_PROMPT",
    "Days",
    "Ends",
    "Format",
    "Heading",
    "Layout",
    "MessagesLayout",
    "Outline",
    "Parsed",
    "RawLayout",
    "ReadableLayout",
    "as_messages",
    "day_of",
    "guarded_line",
    "guarded_tags",
    "in_order",
    "in_sections",
    "lines",
    "one_line",
    "unguarded_line",
    "unguarded_tags",
    "unlined",
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
    """Escape the tags of a memory block; every other character stays as it is."""
    return _TAG.sub("&lt;", _ENTITY.sub("&amp;", text))


def unguarded_tags(text: str) -> str:
    return _GUARDED_TAG.sub(lambda found: "<" if found[1] == "lt" else "&", text)


def guarded_line(line: str) -> str:
    """Put a backslash before what would be a heading, its underline or a horizontal rule."""
    found = _STRUCTURE.match(line)
    return f"{found[1]}\\{line[found.end() :]}" if found else line


def unguarded_line(line: str) -> str:
    found = _GUARDED_STRUCTURE.match(line)
    return found[1] + line[found.end() :] if found else line


def one_line(text: str | None) -> str | None:
    """A title or a name without line ends; None where nothing is left."""
    return " ".join(clean(text).split()) or None if text else None


# The order of a block: by tier, then by day; in a day, what belongs to one session stays together.


Days = dict[date | None, list[Placed]]

_START = datetime.min.replace(tzinfo=UTC)


def in_sections(placed: Sequence[Placed]) -> dict[Tier, Days]:
    """The days of each tier that has any; what has no time comes first, in the order given."""
    sections: dict[Tier, Days] = {}
    for each in sorted(placed, key=_by_tier_and_time):
        sections.setdefault(each.item.tier, {}).setdefault(day_of(each.item), []).append(each)
    return {
        tier: {day: _by_thread(items) if day else items for day, items in days.items()}
        for tier, days in sections.items()
    }


def in_order(placed: Sequence[Placed]) -> Iterator[Placed]:
    """The same order without the borders."""
    for days in in_sections(placed).values():
        for items in days.values():
            yield from items


def day_of(item: Item) -> date | None:
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


# What every format of a context block offers.


class Heading(NamedTuple):
    """A heading: the key that its items share, and its text, which the first of them pays for."""

    key: Hashable
    text: str


class Parsed(NamedTuple):
    """An item as parsed from a block."""

    text: str
    title: str | None = None
    speaker: str | None = None
    tier: str | None = None
    day: str | None = None
    """Its date as ISO 8601."""
    id: str | None = None
    short_id: str | None = None
    kind: str | None = None
    confidence: float | None = None
    older: bool = False
    """Whether the block marks it as overtaken by a newer one."""


class Layout(Protocol):
    """A format of a block.

    Its parts are whole lines, so that the sum of their prices is at least the price of the block.
    """

    name: str

    @property
    def around(self) -> str:
        """The opening and closing around all items."""

    def section(self, item: Item) -> Heading:
        """The section of an item, with what opens and closes it."""

    def group(self, item: Item) -> Heading:
        """The heading of an item within its section; its text is empty if there is none."""

    def lines(self, placed: Placed) -> str:
        """The lines of an item."""

    def block(self, placed: Sequence[Placed]) -> str:
        """The whole text, in the order of the format."""


class ReadableLayout(Layout, Protocol):
    """A format that can be read back."""

    def parse(self, text: str, *, ids: bool = False) -> list[Parsed]:
        """Return the items of a block, in order; `ids` says whether it was made with short ids."""


# The lines of one item in a block of text, and the item back from them.
#
# Only the first line stands at the margin: a bullet, the title in bold, who said it, the text. The bullet says how
# to read it, at no cost: after "-" a name and a colon are the speaker; after "*" there is no speaker, after "+"
# neither speaker nor title, whatever it looks like. So "Decision: use X" needs no mark inside the text. After "-"
# and
# "*" "(older)" says that a newer item of the block tells the same anew.
#
# An item with a short id has a label directly after the bullet: "- [k3f7 decision] ". Either all items of a block
# have one or none. Stored text comes after the label or is indented, so it cannot show the id of another item.
# The brackets cost a token more than "k3f7 decision: ", which would read as a speaker.


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

_LABEL = re.compile(r"\[([\w-]+)(?: ([\w-]+))?\] ")
_NOT_IN_LABEL = re.compile(r"[^\w-]+")


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
    label = _label(placed.item)
    if not text:
        title = one_line(placed.item.headline()) or ""
        return guarded_tags(f"{BULLETS[0]}{label}{_bold(title)} {MORE}\n")
    first, *others = text.split("\n")
    older = placed.item.overtaken_by is not None
    said = _FirstLine(one_line(placed.item.title), one_line(placed.item.speaker), first, older)
    opening = f"{_bold(said.title)}: " if said.title else ""
    opening += f"{_IN_SPEAKER.sub(_backslash, said.speaker)}: " if said.speaker else ""
    content = guarded_line(opening + first)
    begun = _begun(label, content, said)
    return guarded_tags("\n".join([begun, *_indented(content, others)]) + "\n")


def _label(item: Item) -> str:
    """The short id and the kind in brackets; empty if the item has no short id."""
    if item.short_id is None:
        return ""
    words = (item.short_id, item.kind) if item.kind else (item.short_id,)
    # The kinds of other libraries' documents can be any text.
    return f"[{' '.join(_NOT_IN_LABEL.sub('-', word) for word in words)}] "


def _begun(label: str, content: str, said: _FirstLine) -> str:
    """The first line with the bullet after which it reads as what is said; without a mark that has no room."""
    marks = (OLDER, "") if said.older else ("",)
    for mark, bullet in itertools.product(marks, BULLETS):
        if _first_line(bullet, mark + content) == said._replace(older=bool(mark)):
            return bullet + label + mark + content
    raise AssertionError(content)


def _plain(placed: Placed) -> str | None:
    """The same for what needs none of the marks, as most does, in a fraction of the time."""
    title, speaker, text = placed.item.title, placed.item.speaker, placed.text.strip()
    mark = OLDER if placed.item.overtaken_by else ""
    line = f"{f'**{title}**: ' if title else ''}{f'{speaker}: ' if speaker else ''}{text}"
    safe = line.isprintable() and "<" not in line and "&" not in line and text[:1].isalpha()
    safe = safe and (speaker is None or _is_simple(speaker)) and (title is None or _is_simple(title))
    safe = safe and (speaker is not None or ": " not in text)
    return f"{BULLETS[0]}{_label(placed.item)}{mark}{line}\n" if safe else None


def _is_simple(name: str) -> bool:
    return name.isalnum() or (_SIMPLE.fullmatch(name) is not None)


def unlined(text: str, *, ids: bool = False) -> Parsed:
    """Return the item whose lines these are; `ids` says whether it has a label with its short id and kind."""
    first, *others = unguarded_tags(text).strip().split("\n")
    bullet, content = first[:2], first[2:]
    label = _LABEL.match(content) if ids else None
    said = _first_line(bullet, content[label.end() :] if label else content)
    rest = (unguarded_line(line[1:] if line[1:2].isalpha() else line[2:]) for line in others)
    return Parsed(
        "\n".join([said.text, *rest]),
        title=said.title,
        speaker=said.speaker,
        short_id=label[1] if label else None,
        kind=label[2] if label else None,
        older=said.older,
    )


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


# A block of text: sections for the tiers, in them the days, under each day a bullet for each item.
#
# All that starts at the margin is ours, and so nothing stored can stand for a tag, a heading, a date or a footer.


_DATE = re.compile(r"(\d{4}-\d\d-\d\d):")


class Ends(NamedTuple):
    """What opens a part of a block, and what closes it."""

    opening: str
    closing: str = ""


class Outline:
    """A text layout, defined by what opens and closes the block and its sections."""

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
                found.append(unlined("\n".join(of_item), ids=ids)._replace(tier=tier, day=day))
                of_item = []
            if line.startswith(BULLETS):
                of_item = [line]
            elif line in self._tiers:
                tier, day = self._tiers[line], None
            elif date_line := _DATE.fullmatch(line):
                day = date_line[1]
        return found


def _date_line(day: date | None) -> str:
    # After a blank line, which costs nothing, since without it markdown takes this for a part of the bullet
    # above. "### 2023-05-08" costs 9 tokens, this 7.
    return f"\n{day.isoformat()}:\n" if day else ""


# The context block as markdown.


MARKDOWN = Outline(
    "markdown",
    block=Ends("## Memory Context\n"),
    sections={
        "working": Ends("\n### Working Memory\n"),
        "conversation": Ends("\n### Conversation\n"),
        "knowledge": Ends("\n### Knowledge\n"),
    },
)


# The context block between tags, for a system prompt.


SYSTEM_PROMPT = Outline(
    "system_prompt",
    block=Ends("<memory>\n", "</memory>\n"),
    sections={
        "working": Ends("<working>\n", "</working>\n"),
        "conversation": Ends("<conversation>\n", "</conversation>\n"),
        "knowledge": Ends("<knowledge>\n", "</knowledge>\n"),
    },
)


# Items as a JSON array, one on each line, for programs.


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
    """The layout of raw JSON: no headings, text as stored, without empty fields."""

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
        # Last, since after a known word an end without a comma is sure to cost no more than one with it.
        "tier": item.tier,
    }
    return as_json({name: value for name, value in fields.items() if value is not None})


RAW = RawLayout()


# The block for a system prompt as a list of chat messages.
#
# It is one message of the user: a stored turn that became a turn of its own could speak for the model.


_OPENING = '[{"role":"user","content":"'
_CLOSING = '"}]\n'


class MessagesLayout:
    """The layout of chat messages, as OpenAI and Anthropic accept them; every part is escaped for JSON."""

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
    """Parse a block of this format into messages, ready to be sent."""
    return _read_messages(text)


def _escaped(heading: Heading) -> Heading:
    return Heading(heading.key, json_inside(heading.text))


MESSAGES = MessagesLayout()


# The formats of a context block, by name.


Format = Literal["system_prompt", "markdown", "raw", "messages"]
FORMATS: tuple[str, ...] = get_args(Format)

LAYOUTS: dict[str, ReadableLayout] = {
    "system_prompt": SYSTEM_PROMPT,
    "markdown": MARKDOWN,
    "raw": RAW,
    "messages": MESSAGES,
}
