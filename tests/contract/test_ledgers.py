"""Session ledgers: the behaviour of every store."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import satchel
from satchel.model.memory import Scope
from satchel.store.contract import Content, LedgerRow, SessionRow, TurnRow

NOON = datetime(2026, 3, 4, 12, tzinfo=UTC)
ORG = Scope().org


def session_row(name: str = "s", identifier: str = "1", **fields) -> SessionRow:
    given = {"scope": Scope(), "created_at": NOON, "updated_at": NOON, "secret": b"k", "budget": "{}"}
    return SessionRow(id=identifier, name=name, calibration="{}", **(given | fields))


def posted(seq: int, handle: str, **fields) -> LedgerRow:
    given = {"turn": 0, "at": NOON, "used": seq, "category": "history", "role": "note"}
    return LedgerRow(seq=seq, handle=handle, **(given | fields))


@pytest.fixture
def ledgers(bag):
    return bag._store.ledgers


def test_the_same_name_in_the_same_scope_is_the_same_session(ledgers):
    first = ledgers.open(session_row(identifier="1"))
    again = ledgers.open(session_row(identifier="2", secret=b"other"))
    assert (again.id, again.secret) == (first.id, b"k")
    assert ledgers.open(session_row(identifier="3", scope=Scope(project="p"))).id == "3"


def test_a_name_is_found_inside_a_scope_only(ledgers):
    ledgers.open(session_row(identifier="1", scope=Scope(project="p")))
    ledgers.open(session_row(identifier="2", scope=Scope(org="else")))
    assert [each.id for each in ledgers.named(Scope(), "s")] == ["1"]
    assert ledgers.named(Scope(project="q"), "s") == []
    assert [each.id for each in ledgers.sessions(Scope(org="else"), limit=9)] == ["2"]


def test_sessions_come_with_the_last_changed_first(ledgers):
    for number in range(3):
        ledgers.open(session_row(f"s{number}", str(number), updated_at=NOON + timedelta(hours=number)))
    ledgers.change(ORG, "0", {"updated_at": NOON + timedelta(days=1), "turn": 7})
    assert [each.name for each in ledgers.sessions(Scope(), limit=2)] == ["s0", "s2"]
    assert ledgers.session(ORG, "0").turn == 7


def test_entries_come_back_as_they_were(ledgers):
    session = ledgers.open(session_row())
    entry = posted(
        1, "aaaaaaaa", pinned=True, error=True, media="bytes", content=b"\0", digest="d", stub="s", note="📏"
    )
    ledgers.post(ORG, session.id, entry)
    assert ledgers.held(ORG, session.id) == [entry]
    (bare,) = ledgers.held(ORG, session.id, "history", words=False)
    assert (bare.digest, bare.stub, bare.note, bare.handle, bare.tokens) == ("", "", "", "aaaaaaaa", entry.tokens)
    assert ledgers.by_handle(ORG, "aaaaaaaa") == (session.id, entry)
    assert ledgers.by_handle("else", "aaaaaaaa") is None


def test_what_is_gone_is_not_held_but_keeps_its_handle(ledgers):
    session = ledgers.open(session_row())
    for seq, category in enumerate(("history", "tool_results", "history"), 1):
        ledgers.post(ORG, session.id, posted(seq, f"aaaaaaa{seq}", category=category, role="result"))
    ledgers.repost(ORG, session.id, [1, 2], {"level": "gone"})
    assert [entry.seq for entry in ledgers.held(ORG, session.id)] == [3]
    assert ledgers.held(ORG, session.id, "tool_results") == []
    assert ledgers.by_handle(ORG, "aaaaaaa1")[1].level == "gone"
    assert [entry.seq for entry in ledgers.results(ORG, session.id, limit=2)] == [3, 2]


def test_a_content_is_kept_once_and_by_org(ledgers):
    for moment in (NOON, NOON + timedelta(days=1)):
        ledgers.keep(ORG, Content(b"h", "plain", b"abc"), moment)
    assert ledgers.content(ORG, b"h") == Content(b"h", "plain", b"abc")
    assert ledgers.content_bytes(ORG) == 3
    assert ledgers.content("else", b"h") is None
    # The second time counted as a use.
    assert ledgers.expire(ORG, before=NOON + timedelta(hours=1), most_bytes=10) == 0


def test_contents_expire_by_age_and_then_by_size(ledgers):
    for number in range(5):
        ledgers.keep(ORG, Content(bytes([number]), "plain", b"x" * 10), NOON + timedelta(days=number))
    ledgers.keep("else", Content(b"z", "plain", b"x" * 10), NOON)
    assert ledgers.expire(ORG, before=NOON + timedelta(hours=1), most_bytes=1000) == 1
    assert ledgers.expire(ORG, before=NOON, most_bytes=25) == 2
    assert [number for number in range(5) if ledgers.content(ORG, bytes([number]))] == [3, 4]
    assert ledgers.content_bytes("else") == 10


def test_what_a_context_holds_beside_results_does_not_expire_nor_what_is_pinned(ledgers):
    session = ledgers.open(session_row())
    kinds = (
        {"role": "system"},
        {"role": "result"},
        {"role": "result", "pinned": True},
        {"role": "user", "level": "stub"},
    )
    for number, fields in enumerate(kinds, 1):
        ledgers.keep(ORG, Content(bytes([number]), "plain", b"x"), NOON)
        ledgers.post(ORG, session.id, posted(number, f"aaaaaaa{number}", content=bytes([number]), **fields))
    assert ledgers.expire(ORG, before=NOON, most_bytes=0) == 2
    assert [number for number in range(1, 5) if ledgers.content(ORG, bytes([number]))] == [1, 3]


def test_the_last_entry_of_a_call_is_found_by_its_id(ledgers):
    session = ledgers.open(session_row())
    for seq, call in enumerate(("a", "b", "a", ""), 1):
        ledgers.post(ORG, session.id, posted(seq, f"aaaaaaa{seq}", call_id=call))
    assert ledgers.last_of_call(ORG, session.id, "a").seq == 3
    assert ledgers.last_of_call(ORG, session.id, "c") is None


def test_a_turn_that_ends_twice_is_one_row(ledgers):
    session = ledgers.open(session_row())
    ledgers.end_turn(ORG, session.id, TurnRow(0, NOON, 1, 2, 3, 4, 0))
    ledgers.end_turn(ORG, session.id, TurnRow(1, NOON, 1, 2, 3, 4, 0))
    ledgers.end_turn(ORG, session.id, last := TurnRow(1, NOON, 5, 6, 7, 8, 9))
    assert ledgers.turns(ORG, session.id)[1:] == [last]


def test_a_removed_session_leaves_nothing_but_what_others_have(ledgers):
    for identifier in ("1", "2"):
        ledgers.open(session_row(f"s{identifier}", identifier))
        for number, shared in enumerate((b"shared", identifier.encode()), 1):
            ledgers.keep(ORG, Content(shared, "plain", b"x"), NOON)
            ledgers.post(ORG, identifier, posted(number, f"{identifier}aaaaaa{number}", content=shared))
        ledgers.end_turn(ORG, identifier, TurnRow(0, NOON, 0, 0, 0, 0, 0))
    ledgers.remove(ORG, "1")
    assert ledgers.session(ORG, "1") is None
    assert ledgers.by_handle(ORG, "1aaaaaa1") is None
    assert ledgers.turns(ORG, "1") == []
    assert ledgers.content(ORG, b"1") is None
    assert ledgers.content(ORG, b"shared") is not None
    assert len(ledgers.held(ORG, "2")) == 2


def test_what_is_written_in_a_transaction_that_fails_is_undone(location: Path | str):
    with satchel.open(location) as bag, satchel.open(location) as other:
        ledgers = bag._store.ledgers
        session = ledgers.open(session_row())

        def fails() -> None:
            with bag.transaction():
                ledgers.keep(ORG, Content(b"h", "plain", b"abc"), NOON)
                ledgers.post(ORG, session.id, posted(1, "aaaaaaaa"))
                ledgers.change(ORG, session.id, {"turn": 5})
                raise RuntimeError

        with pytest.raises(RuntimeError):
            fails()
        seen = other._store.ledgers
        assert (seen.held(ORG, "1"), seen.content_bytes(ORG), seen.session(ORG, "1").turn) == ([], 0, 0)
