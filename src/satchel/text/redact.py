"""Mask secrets in text. All text passes through `redact` before it is stored.

The rules are in `satchel.text.secrets`. This module applies them to parts of a text, and replaces what they find.
"""

import contextlib
import json
import os
import re
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import cache
from typing import Any, NamedTuple

from satchel.model.checks import repair_surrogates

__all__ = [
    "MASK",
    "Redacted",
    "load_rules",
    "masked_labels",
    "masked_line",
    "redact",
    "redact_json",
    "redact_member",
    "redact_values",
    "without_masks",
]


class Redacted(NamedTuple):
    """A text with masked secrets, and the label of each mask, in order."""

    text: str
    masked: tuple[str, ...]


class _Span(NamedTuple):
    start: int
    end: int
    label: str


MASK = "[masked:"
"""The beginning of every mask."""

_PRIVATE = re.compile(r"<private(?:[\s/](?:[^<>\[]|\[(?!masked:))*+)?>|</private\s*>", re.ASCII | re.IGNORECASE)
# A mask where JSON has a number.
_BARE_MASK = re.compile(r"(?<=[:,\[ ])(\[masked:[a-z0-9-]{1,40}\])(?=\s*[,}\]])")
_MASK = re.compile(r"(\[masked:[a-z0-9-]{1,40}\])")
# While a text is searched, this character stands for each mask. It ends a line, a word and a value, so no rule
# looks across it.
_BARRIER = "\f"
_MASK_OR_BARRIER = re.compile(r"\[masked:[a-z0-9-]{1,40}\]|\f")
# A mask may reveal another secret, as at the end of a token of fixed length that stood directly before it. Such
# chains are short; more rounds than this would only serve texts made to be slow.
_MOST_ROUNDS = 6

# Long texts are searched in parts, because no other thread runs during a search by `re`. Each part is searched
# together with the text around it, for secrets at its edges.
_PART = 16_000
_AROUND = 1_000
# A secret that reaches the end of what was searched goes on to the next space or quote.
_REST = re.compile(r"[^\s\"'`<>]*+")

# One thread at a time masks. Masking is pure computation, so several threads would not be faster: they would only
# take turns from threads that answer other calls.
_turn = threading.RLock()


def _new_turn() -> None:
    global _turn
    _turn = threading.RLock()


if hasattr(os, "register_at_fork"):
    # Another thread may hold the lock while a process forks; in the child, nobody would release it.
    os.register_at_fork(after_in_child=_new_turn)


def redact(text: str) -> Redacted:
    """Replace every secret in a text, and every `<private>` block, by `[masked:LABEL]`.

    The result is stable: redacting it again changes nothing. A text without secrets is returned unchanged. The time
    is proportional to the length of the text, whatever it contains.
    """
    marked = _mark_private(text)
    regions = [(0, len(marked.text))]
    for _ in range(_MOST_ROUNDS):
        spans = _spans(marked.text, regions)
        if not spans:
            break
        # Only near a new mask can another secret come to light.
        marked, regions = _with_spans(marked, spans)
    masked = tuple(mark.label for mark in marked.marks if mark.label)
    return Redacted(_restored(marked), masked) if masked else Redacted(text, ())


def masked_line(message: str) -> str:
    """Return a message on one line, with secrets masked, for logs and error messages."""
    return redact(" ".join(repair_surrogates(message).split())).text


def load_rules() -> None:
    """Read all rules from disk now.

    A server calls this when it starts: its log lines are masked, and rules that are loaded with the first one could
    not be read any more once the process has no descriptors left.
    """
    # Shorter texts need no list of seed words.
    redact("any text " * 12)


def redact_json(text: str) -> str:
    """Mask the secrets of a text. If it is JSON, it stays JSON: a masked number becomes a string."""
    masked = redact(text).text
    if masked == text or not text.lstrip().startswith(("{", "[", '"')):
        return masked
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return masked
    quoted = _BARE_MASK.sub(r'"\1"', masked)
    try:
        json.loads(quoted)
    except ValueError:
        return json.dumps(redact_values(value), ensure_ascii=False, separators=(",", ":"))
    return quoted


def redact_values(value: Any, *, but: Collection[str] = ()) -> Any:
    """Mask the secrets in all strings of a JSON value, except in members with one of the names in `but`."""
    if isinstance(value, str):
        return redact(value).text
    if isinstance(value, list):
        return [redact_values(item, but=but) for item in value]
    if isinstance(value, dict):
        return {key: item if key in but else _redacted_member(key, item, but) for key, item in value.items()}
    return value


def redact_member(name: str, value: str) -> str:
    """Mask the secrets of a string that has a name: what is called a password is one."""
    masked = redact(value).text
    found = redact(json.dumps({name: masked}, ensure_ascii=False)).text
    with contextlib.suppress(ValueError):
        member = json.loads(found).get(name)
        return member if isinstance(member, str) else masked
    return masked


def _redacted_member(name: Any, value: Any, but: Collection[str]) -> Any:
    if isinstance(value, list):
        return [_redacted_member(name, item, but) for item in value]
    return redact_member(str(name), value) if isinstance(value, str) else redact_values(value, but=but)


def masked_labels(*texts: str | None) -> tuple[str, ...]:
    """Return the labels of the masks in these texts, in order."""
    return tuple(mask[8:-1] for text in texts if text for mask in _MASK.findall(text))


def without_masks(text: str) -> str:
    """Return a text without its masks."""
    return _MASK.sub("", text)


# A text with a barrier in place of each mask


class _Mark(NamedTuple):
    """What a barrier stands for; with a label, a secret that was found now."""

    text: str
    label: str = ""


class _Marked(NamedTuple):
    text: str
    marks: list[_Mark]


def _mark_private(text: str) -> _Marked:
    """Return the text with a barrier for each `<private>` block, mask and form feed in it."""
    if "<" not in text and MASK not in text and _BARRIER not in text:
        return _Marked(text, [])
    marks: list[_Mark] = []
    parts: list[str] = []

    def barrier(found: re.Match[str]) -> str:
        marks.append(_Mark(found[0]))
        return _BARRIER

    position = 0
    for span in _private_spans(text):
        parts += [_MASK_OR_BARRIER.sub(barrier, text[position : span.start]), _BARRIER]
        marks.append(_Mark(f"[masked:{span.label}]", span.label))
        position = span.end
    parts.append(_MASK_OR_BARRIER.sub(barrier, text[position:]))
    return _Marked("".join(parts), marks)


def _with_spans(marked: _Marked, spans: Iterable[_Span]) -> tuple[_Marked, list[tuple[int, int]]]:
    """Return the text with a barrier for each span as well, and the regions around the new barriers."""
    text, earlier = marked
    parts: list[str] = []
    marks: list[_Mark] = []
    regions: list[tuple[int, int]] = []
    position = used = length = 0
    for start, end, label in spans:
        before = text[position:start]
        count = before.count(_BARRIER)
        marks += earlier[used : used + count]
        marks.append(_Mark(f"[masked:{label}]", label))
        used += count
        parts += [before, _BARRIER]
        length += len(before) + 1
        first, last = max(0, length - _AROUND), length + _AROUND
        if regions and first <= regions[-1][1]:
            first, _ = regions.pop()
        regions.append((first, last))
        position = end
    parts.append(text[position:])
    return _Marked("".join(parts), marks + earlier[used:]), regions


def _restored(marked: _Marked) -> str:
    first, *rest = marked.text.split(_BARRIER)
    return first + "".join(mark.text + part for mark, part in zip(marked.marks, rest, strict=True))


def _private_spans(text: str) -> Iterator[_Span]:
    depth = start = 0
    for tag in _PRIVATE.finditer(text):
        if tag[0][1] != "/":
            start = start if depth else tag.start()
            depth += 1
        elif depth:
            depth -= 1
            if not depth:
                yield _Span(start, tag.end(), "private")
    if depth:
        yield _Span(start, len(text), "private")


# Searching a text in parts


def _spans(text: str, regions: Iterable[tuple[int, int]]) -> list[_Span]:
    """Return the spans of all secrets that start in one of the regions, in order, none across a barrier."""
    found = [each for find in _whole_text_finders() for each in find(text)]
    for start, stop in regions:
        found += _search_region(text, start, min(stop, len(text)))
    if not found:
        return []
    spans = [_Span(*each) for each in found]
    return _merged([span for span in spans if _BARRIER not in text[span.start : span.end]])


def _search_region(text: str, start: int, stop: int) -> Iterable[tuple[int, int, str]]:
    whole = stop - start == len(text) <= _PART
    return _search(text) if whole else _search_in_parts(text, start, stop)


def _search_in_parts(text: str, start: int, stop: int) -> Iterator[tuple[int, int, str]]:
    while start < stop:
        end = _part_end(text, start, stop)
        low, high = max(0, start - _AROUND), min(len(text), end + _AROUND)
        for first, last, label in _search(text[low:high]):
            if start <= low + first < end:
                reach = low + last
                if reach == high and (rest := _REST.match(text, reach)):
                    reach = rest.end()
                yield low + first, reach, label
                end = max(end, reach)
        if high < len(text):
            time.sleep(0)  # Let other threads run.
        start = end


def _part_end(text: str, start: int, stop: int) -> int:
    """Return where the part from `start` ends: at a line if possible."""
    end = start + _PART
    return stop if end >= stop else text.rfind("\n", start + _PART // 2, end) + 1 or end


_Finder = Callable[[Any], Iterable[tuple[int, int, str]]]


@cache
def _whole_text_finders() -> tuple[_Finder, ...]:
    """Return the functions that search a whole text at once."""
    # Compiling the rules takes longer than many commands, which only read.
    from satchel.text.secrets.contexts import find_private_keys
    from satchel.text.secrets.tables import find_table_cells

    return find_private_keys, find_table_cells


@cache
def _finders() -> tuple[Callable[[str], Any], tuple[_Finder, ...]]:
    """Return the function that prepares a part of a text, and those that search it."""
    # Compiling the rules takes longer than many commands, which only read.
    from satchel.text.secrets.assignments import find_assignments
    from satchel.text.secrets.codes import find_codes
    from satchel.text.secrets.contexts import find_contexts
    from satchel.text.secrets.formats import find_formats
    from satchel.text.secrets.numbers import find_cards, find_seed_phrases
    from satchel.text.secrets.searched import searched

    every = (find_formats, find_contexts, find_assignments, find_codes, find_cards, find_seed_phrases)
    return searched, every


def _search(text: str) -> list[tuple[int, int, str]]:
    prepare, finders = _finders()
    with _turn:
        part = prepare(text)
        return [found for find in finders for found in find(part)]


def _merged(spans: list[_Span]) -> list[_Span]:
    """Return the spans in order; overlapping ones become one with the label of the first."""
    merged: list[_Span] = []
    for span in sorted(spans, key=lambda span: span.start):
        if merged and span.start < merged[-1].end:
            merged[-1] = merged[-1]._replace(end=max(span.end, merged[-1].end))
        else:
            merged.append(span)
    return merged
