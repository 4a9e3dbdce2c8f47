"""The work log as the messages of a provider: a call and its result are both there, side by side, or both not."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from satchel.budget.contents import unpacked
from satchel.budget.ledger import Ledger, grouped, named
from satchel.budget.notes import digest_line
from satchel.budget.shown import Messages
from satchel.budget.worklog import Logged, logged
from satchel.errors import BudgetError
from satchel.render.as_json import as_json
from satchel.store import Level

__all__ = ["PROVIDERS", "Provider", "messages_within"]

Provider = Literal["anthropic", "openai"]
PROVIDERS = ("anthropic", "openai")

_EARLIER = "Earlier in this session, kept under these handles:"
_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9_-]")


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
    levels: dict[int, Level] = {each.entry.seq: each.entry.level for each in log}
    steps_down = iter(() if budget is None else _steps_down(log, ledger))
    while True:
        messages = _written(list(_steps(log, levels)), provider, system)
        tokens = ledger.count(as_json(messages))
        if budget is None or tokens <= budget:
            return Messages(messages, system=system, token_count=tokens)
        over, lowered = tokens - budget, False
        for step in steps_down:
            levels.update(dict.fromkeys(step.seqs, step.level))
            lowered = True
            over -= step.saves
            if over <= 0:
                break
        if not lowered:
            raise BudgetError(f"the messages need at least {tokens:,} tokens, and {budget:,} are given")


class Down(NamedTuple):
    """Entries that can be said in fewer words, and about how many tokens that saves."""

    seqs: tuple[int, ...]
    level: Level
    saves: int


def _steps_down(log: Sequence[Logged], ledger: Ledger) -> Iterator[Down]:
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
                yield Down((entry.seq,), "digest", entry.tokens - entry.digest_tokens)
    for group in groups:
        stubs = named(group)
        now = sum(entry.digest_tokens or entry.tokens for entry in group)
        yield Down(tuple(entry.seq for entry in group), "gone", now)
        yield Down(tuple(entry.seq for entry in stubs), "stub", -sum(entry.stub_tokens for entry in stubs))
    for entry in entries:
        if not entry.pinned and entry.seq != newest:
            yield Down((entry.seq,), "gone", entry.stub_tokens)


def _system_texts(ledger: Ledger) -> Iterator[str]:
    for entry in ledger.ledgers.held(ledger.org, ledger.session, "system"):
        content = ledger.ledgers.content(ledger.org, entry.content)
        if content is not None:
            yield unpacked(content).decode("utf-8", "surrogatepass")


def _steps(log: Sequence[Logged], levels: Mapping[int, Level]) -> Iterator[Step]:
    """In order, what was evicted first: the calls of one go, then all of their answers."""
    stubs = [each.entry.stub for each in log if levels[each.entry.seq] == "stub" and each.entry.stub]
    if stubs:
        yield Step("user", "\n".join([_EARLIER, *stubs]))
    there = [each for each in log if levels[each.entry.seq] in ("whole", "digest")]
    answers = {
        each.entry.call_id: each for each in there if each.entry.role in ("result", "page") and each.entry.call_id
    }
    asked: dict[str, str] = {}
    done: set[str] = set()
    for each in there:
        entry = each.entry
        if entry.role == "call":
            # One without an answer yet is not for a provider, which refuses it.
            if entry.call_id in answers and entry.call_id not in done:
                asked[entry.call_id] = each.text
            continue
        if asked:
            yield Step("calls", calls=tuple(_pair(answers[call], levels, words) for call, words in asked.items()))
            done |= asked.keys()
            asked = {}
        if entry.role not in ("result", "page"):
            yield Step("assistant" if entry.role == "assistant" else "user", each.text)
        elif entry.call_id not in done:
            done |= {entry.call_id} - {""}
            yield Step("calls", calls=(_pair(each, levels),))


def _pair(answer: Logged, levels: Mapping[int, Level], arguments: str = "{}") -> Pair:
    entry = answer.entry
    text = answer.text
    if levels[entry.seq] == "digest":
        text = digest_line(entry.handle, entry.tool, entry.digest)
    try:
        given = msgspec.json.decode(arguments or "{}")
    except msgspec.DecodeError:
        given = {}
    identifier = _named(entry.call_id) if entry.call_id else f"call_{entry.handle}"
    return Pair(
        identifier, _named(entry.tool), given if isinstance(given, dict) else {"input": given}, text, entry.error
    )


def _named(name: str) -> str:
    return _NOT_IN_A_NAME.sub("_", name)[:128]


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
        elif step.text:
            say(step.role, [{"type": "text", "text": step.text}])
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
        elif step.text:
            messages.append({"role": step.role, "content": step.text})
    return messages
