"""The work log as the messages of a provider: a call and its result are both there, side by side, or both not."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from satchel.errors import BudgetError, ExpiredError
from satchel.fitting.as_json import as_json
from satchel.model.surrogates import repair_surrogates
from satchel.session.contents import unpacked
from satchel.session.ledger import Ledger, grouped, named
from satchel.session.notes import digest_line
from satchel.session.shown import Messages
from satchel.session.worklog import Logged, logged
from satchel.store.ledger import Level, Posted

__all__ = ["PROVIDERS", "Provider", "messages_within"]

Provider = Literal["anthropic", "openai"]
PROVIDERS = ("anthropic", "openai")

_EARLIER = "Earlier in this session, kept under these handles:"
_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9_-]")
# The narrower of what the two take.
_LONGEST_NAME = 64
_IDENTIFIER = re.compile(r"[A-Za-z0-9_-]{1,40}")


class Step(NamedTuple):
    """Something said by one side, or calls with the answers to all of them."""

    role: Literal["user", "assistant", "calls"]
    text: str = ""
    calls: tuple["Pair", ...] = ()


class Pair(NamedTuple):
    identifier: str
    tool: str
    arguments: dict[str, Any]
    answer: str
    error: bool


def messages_within(ledger: Ledger, provider: Provider, budget: int | None) -> Messages:
    """Everything the context holds; within a budget, what was used least recently is said in fewer words.

    Results shrink to digests, then whole exchanges to stubs, then stubs go; the newest entry and pins stay.
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
    low, high = 1, len(steps_down)
    while low < high:
        middle = (low + high) // 2
        if written(middle).token_count <= budget:
            high = middle
        else:
            low = middle + 1
    made = written(high)
    if made.token_count > budget:
        raise BudgetError(f"the messages need at least {made.token_count:,} tokens, and {budget:,} are given")
    return made


def _steps_down(log: Sequence[Logged]) -> Iterator[dict[int, Level]]:
    """What can be said in fewer words, one thing after another: the levels that entries get."""
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
        stubs = named(group)
        yield {entry.seq: "stub" if entry in stubs else "gone" for entry in group}
    for entry in entries:
        if not entry.pinned and entry.seq != newest:
            yield {entry.seq: "gone"}


def _system_texts(ledger: Ledger) -> Iterator[str]:
    for entry in ledger.ledgers.held(ledger.org, ledger.session, "system"):
        content = ledger.ledgers.content(ledger.org, entry.content)
        if content is None:
            raise ExpiredError(f"the system text {entry.name or entry.handle!r} is no longer kept; record it again")
        yield repair_surrogates(unpacked(content).decode("utf-8", "surrogatepass"))


def _steps(log: Sequence[Logged], levels: Mapping[int, Level]) -> Iterator[Step]:
    """In order, what was evicted first: the calls of one go, then all of their answers."""
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
            # One without an answer yet is not for a provider, which refuses it.
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
    """Ids of calls as every provider takes them, each used once."""

    def __init__(self) -> None:
        self._used: set[str] = set()

    def of(self, entry: Posted) -> str:
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
            # A provider refuses an answer of its model that ends in blanks.
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
