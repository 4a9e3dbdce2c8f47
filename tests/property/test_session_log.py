"""For any session, a call and its result stay together and no handle is lost."""

import json
from random import Random

import pytest

import satchel
from satchel import Budget, BudgetError

STEPS = 90
TEXTS = (
    "ok",
    "error: no such file /a/b.py\n" * 3,
    "def f(x):\n    return x\n" * 60,
    "word " * 3_000,
    '{"a": [1, 2]}',
)


def assert_paired(messages: list[dict], provider: str) -> None:
    """As the providers check it: after calls come the answers to all of them, and no others."""
    if provider == "openai":
        waiting: set[str] = set()
        for message in messages:
            if message["role"] == "tool":
                assert message["tool_call_id"] in waiting
                waiting.remove(message["tool_call_id"])
                continue
            assert not waiting
            waiting = {call["id"] for call in message.get("tool_calls", ())}
            assert len(waiting) == len(message.get("tool_calls", ()))
        assert not waiting
        return
    roles = [message["role"] for message in messages]
    assert roles == [("user", "assistant")[place % 2] for place in range(len(roles))]
    calls: list[str] = []
    for message in messages:
        blocks = message["content"]
        answers = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        assert sorted(answers) == sorted(calls)
        # Answers stand before anything else of their message.
        assert [block["type"] for block in blocks[: len(answers)]] == ["tool_result"] * len(answers)
        calls = [block["id"] for block in blocks if block["type"] == "tool_use"]
    assert not calls


@pytest.mark.parametrize("seed", range(8))
def test_pairs_stay_together_and_every_handle_expands(seed):
    rng = Random(seed)
    with satchel.open(":memory:") as bag:
        session = bag.session("s", budget=Budget(total=rng.choice((6_000, 20_000))))
        session.record("system", "Be careful.")
        kept: dict[str, object] = {}
        open_calls: list[str] = []
        cursors: list[str] = []
        for step in range(STEPS):
            act = rng.choice(
                ("user", "assistant", "call", "call", "result", "result", "result", "orphan", "page", "use")
            )
            if act in ("user", "assistant"):
                text = f"{step} {rng.choice(TEXTS)}"
                kept[session.record(act, text, pinned=rng.random() < 0.03).handle] = text
            elif act == "call":
                open_calls.append(f"call_{step}")
                session.call("read_file", {"path": f"{step}.py"}, open_calls[-1])
            elif act == "result" and open_calls:
                output = f"{step} {rng.choice(TEXTS)}"
                call = open_calls.pop(rng.randrange(len(open_calls)))
                shown = session.result("read_file", output, call_id=call, error=rng.random() < 0.1)
                kept[shown.handle] = output
                cursors += [shown.cursor] if shown.cursor else []
            elif act == "orphan":
                output = {"step": step, "rows": list(range(rng.choice((3, 900))))}
                kept[session.result("query", output).handle] = json.dumps(output, separators=(",", ":"))
            elif act == "page" and cursors:
                session.page(rng.choice(cursors))
            elif act == "use" and kept:
                session.expand(rng.choice(list(kept)))
            if step % 5 == 0:
                for provider in ("anthropic", "openai"):
                    assert_paired(session.messages(provider), provider)
                used = session.state().used
                held = session._ledger.ledgers.held("default", session._ledger.session)
                assert used["history"] == sum(_cost(entry) for entry in held if entry.category == "history")
                assert used["tool_results"] == sum(
                    _cost(entry) for entry in held if entry.category == "tool_results"
                )
        for handle, original in kept.items():
            assert session.expand(handle) == original
        for budget in (300, 900, 2_500):
            for provider in ("anthropic", "openai"):
                try:
                    messages = session.messages(provider, max_tokens=budget)
                except BudgetError:
                    continue
                assert_paired(messages, provider)
                count = session.counter.count(json.dumps(list(messages), ensure_ascii=False, separators=(",", ":")))
                assert count == messages.token_count <= budget


def _cost(entry) -> int:
    return {"whole": entry.tokens, "digest": entry.digest_tokens, "stub": entry.stub_tokens}[entry.level]
