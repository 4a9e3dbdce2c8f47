"""The history of a session within a budget, as a text log or as messages for a provider's API."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from satchel.errors import BudgetError, ExpiredError
from satchel.fitting.engine import Count, largest
from satchel.fitting.listing import as_json
from satchel.model.checks import repair_surrogates
from satchel.model.patterns import lazy_pattern
from satchel.session.ledger import Ledger, entries_with_stub, eviction_units, grouped, keys_to_evict
from satchel.session.results import History, LedgerEntry, Messages, decompress, digest_line
from satchel.store.contract import LedgerRow, Level

__all__ = ["PROVIDERS", "Provider", "history_within", "messages_within"]


_SPEAKERS = {"user": "User: ", "assistant": "Assistant: ", "note": "", "call": "→ "}


class Logged(NamedTuple):
    """A ledger entry with the part of its content that was shown in the context."""

    entry: LedgerRow
    text: str

    @property
    def short(self) -> str:
        """The text for the log: a digest for results, the whole text for other entries."""
        entry = self.entry
        if entry.level == "stub":
            return entry.stub
        if entry.role in ("result", "page"):
            return digest_line(entry.handle, entry.tool, entry.digest)
        name = entry.tool + " " if entry.role == "call" else ""
        return f"{_SPEAKERS.get(entry.role, '')}{name}{self.text}"


def logged(ledger: Ledger) -> list[Logged]:
    """Return the entries that the context holds, except system texts, oldest first."""
    entries = [entry for entry in ledger.ledgers.held(ledger.org, ledger.session) if entry.role != "system"]
    return [Logged(entry, _text(ledger, entry)) for entry in entries]


def history_within(ledger: Ledger, budget: int) -> History:
    """Return the session as a text log of at most `budget` tokens.

    If it is too long, the least recently used entries are shown as stubs first, and left out after that.
    """
    log = logged(ledger)
    lines = {each.entry.seq: each.short for each in log}
    omitted = [each.entry.seq for each in log if each.entry.level == "stub"]
    count = ledger.count
    shrinkable = [
        each.entry for each in log if count(each.entry.stub) < count(lines[each.entry.seq]) or each.entry.call_id
    ]
    newest = max((each.entry.seq for each in log), default=0)
    priced = [_priced(entry, count(lines[entry.seq] + "\n")) for entry in shrinkable]
    others = sum(count(text + "\n") for seq, text in lines.items()) - sum(entry.tokens for entry in priced)
    going = set(keys_to_evict(eviction_units(priced, newest=newest), limit=max(0, budget - others), low=1.0))
    groups = {entry.pair for entry in shrinkable if entry.seq in going}
    for entry in shrinkable:
        if entry.pair in groups:
            lines[entry.seq] = "" if entry.role == "call" else entry.stub
            omitted.append(entry.seq)
    last = [entry for entry in (each.entry for each in log) if lines[entry.seq]]
    # Drop stubs first and pinned entries last.
    leaving = sorted(last, key=lambda entry: (entry.pinned, entry.seq not in omitted, entry.seq))
    text, left_out = _fitted(lines, [entry.seq for entry in leaving], budget, count)
    return History(
        text=text,
        token_count=count(text),
        entries=tuple(LedgerEntry.of(each.entry) for each in log),
        omitted=len({*omitted, *left_out}),
    )


def _priced(entry: LedgerRow, tokens: int) -> LedgerRow:
    return msgspec.structs.replace(entry, level="whole", tokens=tokens)


def _fitted(
    lines: Mapping[int, str], leaving: Sequence[int], budget: int, count: Count
) -> tuple[str, Sequence[int]]:
    """Drop lines in the order of `leaving` until the rest fits; the first line then says how many are missing."""

    def made(dropped: int) -> str:
        gone = set(leaving[:dropped])
        above = f"[{dropped:,} entries left out for lack of room]\n" if dropped else ""
        return above + "".join(f"{line}\n" for seq, line in lines.items() if line and seq not in gone)

    if count(whole := made(0)) <= budget:
        return whole, ()
    kept = largest(len(leaving) - 1, lambda kept: count(made(len(leaving) - kept)) <= budget)
    dropped = len(leaving) - kept
    text = made(dropped)
    return (text if count(text) <= budget else ""), leaving[:dropped]


def _text(ledger: Ledger, entry: LedgerRow) -> str:
    """Return the part of an entry that was shown, with its note; empty if it is now held as a digest or stub."""
    if entry.level != "whole":
        return ""
    content = ledger.ledgers.content(ledger.org, entry.content)
    if content is None:
        return entry.digest or entry.stub
    if entry.media == "bytes":
        return entry.note
    shown = repair_surrogates(decompress(content).decode("utf-8", "surrogatepass")[entry.start : entry.stop])
    if not entry.note:
        return shown
    return shown + ("" if not shown or shown.endswith("\n") else "\n") + entry.note


# Messages for a provider
#
# Providers reject a call without its result, so the two are always included or left out together.


Provider = Literal["anthropic", "openai"]
PROVIDERS = ("anthropic", "openai")

_EARLIER = "Earlier in this session, kept under these handles:"
_NOT_IN_A_NAME = lazy_pattern(r"[^A-Za-z0-9_-]")
# The stricter of the two providers' limits.
_LONGEST_NAME = 64
_IDENTIFIER = lazy_pattern(r"[A-Za-z0-9_-]{1,40}")


class Step(NamedTuple):
    """One user or assistant message, or a group of parallel calls with their results."""

    role: Literal["user", "assistant", "calls"]
    text: str = ""
    calls: tuple["Pair", ...] = ()


class Pair(NamedTuple):
    """A call and its result."""

    identifier: str
    tool: str
    arguments: dict[str, Any]
    answer: str
    error: bool


def messages_within(ledger: Ledger, provider: Provider, budget: int | None) -> Messages:
    """Return everything the context holds as messages of at most `budget` tokens.

    Least recently used entries are shortened first: results become digests, then whole exchanges become stubs, then
    stubs are dropped. The newest entry and pinned entries are kept. If even that does not fit, `BudgetError` is
    raised.
    """
    log = logged(ledger)
    system = "\n\n".join(_system_texts(ledger))
    steps_down = [] if budget is None else list(_steps_down(log))

    def written(taken: int) -> Messages:
        levels: dict[int, Level] = {each.entry.seq: each.entry.level for each in log}
        for step in steps_down[:taken]:
            levels.update(step)
        messages = _written(list(_steps(log, levels)), provider, system)
        gone = sum(
            level == "gone" and each.entry.role != "call" for each, level in zip(log, levels.values(), strict=True)
        )
        return Messages(messages, system=system, token_count=ledger.count(as_json(messages)), omitted=gone)

    made = written(0)
    if budget is None or made.token_count <= budget:
        return made
    most = len(steps_down)
    spared = largest(most - 1, lambda spared: written(most - spared).token_count <= budget)
    made = written(most - spared)
    if made.token_count > budget:
        raise BudgetError(
            f"the messages need at least {made.token_count:,} tokens, but max_tokens is {budget:,}; "
            f"raise it or unpin entries"
        )
    return made


def _steps_down(log: Sequence[Logged]) -> Iterator[dict[int, Level]]:
    """Yield the ways to shorten the log, in the order to apply them: new levels for entries."""
    entries = [each.entry for each in log]
    newest = max((entry.seq for entry in entries), default=0)
    groups = sorted(
        (
            group
            for group in grouped(entries).values()
            if not any(entry.pinned or entry.seq == newest for entry in group)
        ),
        key=lambda group: max(entry.used for entry in group),
    )
    for group in groups:
        for entry in group:
            if entry.role in ("result", "page") and entry.level == "whole":
                yield {entry.seq: "digest"}
    for group in groups:
        stubs = entries_with_stub(group)
        yield {entry.seq: "stub" if entry in stubs else "gone" for entry in group}
    for entry in entries:
        if not entry.pinned and entry.seq != newest:
            yield {entry.seq: "gone"}


def _system_texts(ledger: Ledger) -> Iterator[str]:
    for entry in ledger.ledgers.held(ledger.org, ledger.session, "system"):
        content = ledger.ledgers.content(ledger.org, entry.content)
        if content is None:
            raise ExpiredError(f"the system text {entry.name or entry.handle!r} has expired; record it again")
        yield repair_surrogates(decompress(content).decode("utf-8", "surrogatepass"))


def _steps(log: Sequence[Logged], levels: Mapping[int, Level]) -> Iterator[Step]:
    """Yield the log as messages: stubs first, then the rest in order, parallel calls with all their results."""
    stubs = [each.entry.stub for each in log if levels[each.entry.seq] == "stub" and each.entry.stub]
    gone = sum(levels[each.entry.seq] == "gone" and each.entry.role != "call" for each in log)
    if gone:
        stubs.insert(0, f"[{gone:,} entries left out for lack of room]")
    if stubs:
        yield Step("user", "\n".join([_EARLIER, *stubs]))
    there = [each for each in log if levels[each.entry.seq] in ("whole", "digest")]
    answers = {each.entry.pair: each for each in reversed(there) if each.entry.role in ("result", "page")}
    identifiers = _Identifiers()
    asked: dict[int, str] = {}
    done: set[int] = set()
    for each in there:
        entry = each.entry
        if entry.role == "call":
            # Providers reject a call without a result.
            if entry.pair in answers:
                asked[entry.pair] = each.text
            continue
        if asked:
            pairs = (_pair(answers[pair], levels, identifiers, words) for pair, words in asked.items())
            yield Step("calls", calls=tuple(pairs))
            done |= asked.keys()
            asked = {}
        if entry.role not in ("result", "page"):
            yield Step("assistant" if entry.role == "assistant" else "user", each.text)
        elif entry.pair not in done:
            done.add(entry.pair)
            yield Step("calls", calls=(_pair(each, levels, identifiers),))


class _Identifiers:
    """Unique call ids in a form that both providers accept."""

    def __init__(self) -> None:
        self._used: set[str] = set()

    def of(self, entry: LedgerRow) -> str:
        given = entry.call_id
        fits = bool(_IDENTIFIER.fullmatch(given)) and given not in self._used
        identifier = given if fits else f"call_{entry.handle}"
        self._used.add(identifier)
        return identifier


def _pair(answer: Logged, levels: Mapping[int, Level], identifiers: _Identifiers, arguments: str = "{}") -> Pair:
    entry = answer.entry
    text = answer.text
    if levels[entry.seq] == "digest":
        text = digest_line(entry.handle, entry.tool, entry.digest)
    try:
        given = msgspec.json.decode(arguments or "{}")
    except msgspec.DecodeError:
        given = arguments
    name = _NOT_IN_A_NAME.sub("_", entry.tool)[:_LONGEST_NAME]
    return Pair(
        identifiers.of(entry), name, given if isinstance(given, dict) else {"input": given}, text, entry.error
    )


def _written(steps: Sequence[Step], provider: Provider, system: str) -> list[dict[str, Any]]:
    return _for_anthropic(steps) if provider == "anthropic" else _for_openai(steps, system)


def _for_anthropic(steps: Sequence[Step]) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []

    def say(role: str, blocks: list[dict[str, Any]]) -> None:
        if messages and messages[-1]["role"] == role:
            messages[-1]["content"] += blocks
        else:
            messages.append({"role": role, "content": blocks})

    for step in steps:
        if step.role == "calls":
            say(
                "assistant",
                [
                    {"type": "tool_use", "id": pair.identifier, "name": pair.tool, "input": pair.arguments}
                    for pair in step.calls
                ],
            )
            say(
                "user",
                [
                    {"type": "tool_result", "tool_use_id": pair.identifier, "content": pair.answer}
                    | ({"is_error": True} if pair.error else {})
                    for pair in step.calls
                ],
            )
        elif step.text.strip():
            # Anthropic rejects an assistant message that ends in whitespace.
            say(
                step.role, [{"type": "text", "text": step.text.rstrip() if step.role == "assistant" else step.text}]
            )
    if messages and messages[0]["role"] != "user":
        messages.insert(0, {"role": "user", "content": [{"type": "text", "text": "(continued)"}]})
    return messages


def _for_openai(steps: Sequence[Step], system: str) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = [{"role": "system", "content": system}] if system else []
    for step in steps:
        if step.role == "calls":
            calls = [
                {
                    "id": pair.identifier,
                    "type": "function",
                    "function": {"name": pair.tool, "arguments": as_json(pair.arguments)},
                }
                for pair in step.calls
            ]
            if messages and messages[-1]["role"] == "assistant" and "tool_calls" not in messages[-1]:
                messages[-1]["tool_calls"] = calls
            else:
                messages.append({"role": "assistant", "content": None, "tool_calls": calls})
            messages += [
                {"role": "tool", "tool_call_id": pair.identifier, "content": pair.answer} for pair in step.calls
            ]
        elif step.text.strip():
            messages.append({"role": step.role, "content": step.text})
    return messages
