"""Write tools: their answers, and the state of the store afterwards."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tool_contexts import ask, empty_context

from satchel.api.satchel import Satchel
from satchel.errors import AmbiguousIdError, InputError, StoreBusyError, UnknownIdError
from satchel.fitting.listing import as_json
from satchel.model.memory import Memory
from satchel.server.mcp.tool_context import ToolContext


@pytest.fixture
def context(tmp_path: Path) -> Iterator[ToolContext]:
    with empty_context(tmp_path) as made:
        yield made


def saved(context: ToolContext, text: str, **fields: object) -> Memory:
    return context.bag.get(ask(context, "mem_save", text=text, **fields).data["id"])


def contents(context: ToolContext) -> bytes:
    return b"".join(context.bag.export())


def short(context: ToolContext, identifier: str) -> str:
    return context.bag.short_ids([identifier])[0]


def test_what_is_saved_has_all_that_was_said_of_it(context: ToolContext):
    answer = ask(
        context,
        "mem_save",
        text="We deploy on Fridays.",
        title="Deploy day",
        kind="decision",
        tier="working",
        tags=["ops", "calendar"],
        importance=0.9,
        topic_key="deploy/day",
        project="atlas",
        session="s1",
    )
    memory = context.bag.get(answer.data["id"])
    assert answer.text == f"saved {short(context, memory.id)} ({memory.tokens} tokens)"
    assert answer.data == {"id": memory.id, "outcome": "saved", "revision": 1, "tokens": memory.tokens}
    assert (memory.text, memory.title, memory.kind, memory.tier) == (
        "We deploy on Fridays.",
        "Deploy day",
        "decision",
        "working",
    )
    assert (memory.tags, memory.importance, memory.topic_key) == (("ops", "calendar"), 0.9, "deploy/day")
    assert (memory.scope.project, memory.scope.session) == ("atlas", "s1")


def test_the_same_text_is_confirmed_and_the_answer_says_how_often_it_was_said(context: ToolContext):
    first = ask(context, "mem_save", text="We deploy on Fridays.").data["id"]
    ask(context, "mem_save", text="We deploy on Fridays.")
    other = ask(context, "mem_save", text="Nobody works on Fridays.").data["id"]
    again = ask(context, "mem_save", text="We deploy on Fridays.", tags=["ops"], relate_to=[other])
    memory = context.bag.get(first)
    assert again.text == f"confirmed {short(context, first)} (said 3 times, first {memory.at.date()})"
    assert again.data == {
        "id": first,
        "outcome": "confirmed",
        "revision": 3,
        "tokens": memory.tokens,
        "confirmations": 2,
    }
    assert (memory.tags, len(context.bag.relations(first))) == (("ops",), 1)


def test_the_same_topic_is_merged_and_the_answer_says_so(context: ToolContext):
    first = ask(context, "mem_save", text="We deploy on Fridays.", topic_key="deploy/day", project="atlas")
    again = ask(context, "mem_save", text="We deploy on Mondays.", topic_key="deploy/day", project="atlas")
    elsewhere = ask(context, "mem_save", text="We deploy daily.", topic_key="deploy/day", project="boreal")
    assert (again.data["id"], again.data["outcome"], again.data["revision"]) == (first.data["id"], "updated", 2)
    assert (
        again.text
        == f"merged {short(context, first.data['id'])} into what had this topic_key, now revision 2 (5 tokens)"
    )
    assert context.bag.get(first.data["id"]).text == "We deploy on Mondays."
    assert (elsewhere.data["id"] != first.data["id"], elsewhere.data["outcome"]) == (True, "saved")


def test_secrets_are_masked_and_named_but_not_repeated(context: ToolContext):
    answer = ask(context, "mem_save", text="The bucket opens with AKIAIOSFODNN7EXAMPLE.")
    assert answer.data["masked"] == ["aws-access-key"]
    assert answer.text.endswith(" masked: aws-access-key")
    assert "AKIA" not in answer.text + context.bag.get(answer.data["id"]).text


def test_relations_come_with_what_is_saved(context: ToolContext):
    bug, idea = saved(context, "The job fails on leap days."), saved(context, "Ask the calendar.")
    fix = saved(context, "The job asks the calendar.", relate_to=[f"fixes:{bug.id}", idea.id[:13]])
    found = {(each.kind, each.target) for each in context.bag.relations(fix.id)}
    assert found == {("fixes", bug.id), ("related", idea.id)}


@pytest.mark.parametrize("wrong", ["01a1e41f", "fixes:01a1e41f", "heals:ID", "not an id", "fixes:"])
def test_a_relation_to_nothing_stores_nothing_at_all(context: ToolContext, wrong: str):
    known = saved(context, "The job fails on leap days.")
    before = contents(context)
    with pytest.raises(InputError):
        ask(context, "mem_save", text="A fix.", relate_to=[f"fixes:{known.id}", wrong.replace("ID", known.id)])
    assert contents(context) == before


def test_an_update_changes_what_is_given_and_keeps_the_rest(context: ToolContext):
    memory = saved(context, "We deploy on Fridays.", title="Deploy day", tags=["ops"])
    answer = ask(context, "mem_update", id=memory.id[:13], text="We deploy on Mondays.", pinned=True, importance=1)
    assert answer.text == f"updated {short(context, memory.id)} to revision 2 (5 tokens)"
    assert answer.data == {"id": memory.id, "outcome": "updated", "revision": 2, "tokens": 5}
    changed = context.bag.get(memory.id)
    assert (changed.text, changed.pinned, changed.importance) == ("We deploy on Mondays.", True, 1.0)
    assert (changed.title, changed.tags) == ("Deploy day", ("ops",))
    assert ask(context, "mem_update", id=memory.id, clear="tags").data["revision"] == 3
    assert context.bag.get(memory.id).tags == ()
    assert [change.action for change in context.bag.history(memory.id)] == ["add", "update", "update"]


def test_the_same_update_again_changes_nothing(context: ToolContext):
    memory = saved(context, "We deploy on Fridays.")
    ask(context, "mem_update", id=memory.id, text="We deploy on Mondays.", kind="decision")
    before = contents(context)
    ask(context, "mem_update", id=memory.id, text="We deploy on Mondays.", kind="decision")
    assert contents(context) == before


def test_an_update_of_nothing_or_of_nobody_is_refused(context: ToolContext):
    memory = saved(context, "We deploy on Fridays.")
    with pytest.raises(InputError, match="nothing to change"):
        ask(context, "mem_update", id=memory.id)
    with pytest.raises(UnknownIdError):
        ask(context, "mem_update", id="01a1e41f", text="x")


def test_forgotten_memories_are_no_longer_found_but_still_there(context: ToolContext):
    _, gone = saved(context, "Keys rotate hourly."), saved(context, "Keys rotate daily.")
    answer = ask(context, "mem_forget", id=[gone.id])
    undo = answer.data["undo"]
    assert answer.text == f"forgot 1 memory; undo: mem_forget(undo={undo})"
    assert answer.data == {"count": 1, "purged": False, "undo": undo}
    found = ask(context, "mem_search", query="keys").text
    assert ("hourly" in found, "daily" in found) == (True, False)
    assert "daily" in ask(context, "mem_get", id=[gone.id]).text
    before = contents(context)
    assert ask(context, "mem_forget", id=gone.id).text == "forgot 0 memories"
    assert contents(context) == before


def test_purged_memories_leave_no_trace(context: ToolContext):
    first, second = saved(context, "Keys rotate hourly."), saved(context, "Keys rotate daily.")
    answer = ask(context, "mem_forget", id=[first.id, second.id], purge=True)
    assert (answer.text, answer.data) == ("purged 2 memories", {"count": 2, "purged": True})
    with pytest.raises(UnknownIdError):
        ask(context, "mem_get", id=[first.id])


def test_one_wrong_id_forgets_nothing(context: ToolContext):
    memory = saved(context, "Keys rotate hourly.")
    before = contents(context)
    for wrong in ("01a1e41f", "not an id"):
        with pytest.raises(InputError):
            ask(context, "mem_forget", id=[memory.id, wrong], purge=True)
    with pytest.raises(InputError, match="mem_forget needs id, or a filter: kind, tags, since or until"):
        ask(context, "mem_forget", id=[])
    assert contents(context) == before


def test_a_prefix_that_several_share_is_refused_with_some_of_them(context: ToolContext):
    one, other = saved(context, "One."), saved(context, "Other.")
    with pytest.raises(AmbiguousIdError, match=f"{context.bag.short_ids([one])[0]} 'One.'"):
        ask(context, "mem_forget", id=[other.id[:8]])


def test_related_memories_are_linked_once(context: ToolContext):
    new, old = saved(context, "Keys rotate hourly."), saved(context, "Keys rotate daily.")
    answer = ask(context, "mem_relate", id=new.id, target=old.id[:13], kind="supersedes")
    assert answer.text == f"{short(context, new.id)} supersedes {short(context, old.id)}"
    assert answer.data == {"source": new.id, "kind": "supersedes", "target": old.id}
    assert context.bag.get(old.id).status == "superseded"
    before = contents(context)
    ask(context, "mem_relate", id=new.id, target=old.id, kind="supersedes")
    assert contents(context) == before
    assert ask(context, "mem_relate", id=old.id, target=new.id).data["kind"] == "related"


def test_what_is_saved_in_a_session_belongs_to_it_and_to_its_project(context: ToolContext):
    started = ask(context, "mem_session", action="start", session="s1", project="atlas", summary="Mend the clock.")
    assert started.text == "started session s1; what is saved from now on belongs to it"
    assert (started.data["session"], started.data["outcome"]) == ("s1", "started")
    inside, elsewhere = saved(context, "The clock is mended."), saved(context, "Another matter.", project="boreal")
    other = saved(context, "Of another session.", session="s2")
    ended = ask(context, "mem_session", action="end", summary="The clock goes again.")
    outside = saved(context, "Afterwards.")
    scopes = [(each.scope.project, each.scope.session) for each in (inside, elsewhere, other, outside)]
    assert scopes == [("atlas", "s1"), ("boreal", "s1"), (None, "s2"), (None, None)]
    assert (ended.text, ended.data["id"]) == ("ended session s1", started.data["id"])
    note = context.bag.get(started.data["id"])
    assert (note.kind, note.title, note.text) == ("summary", "Session s1", "The clock goes again.")
    assert [change.action for change in context.bag.history(note.id)] == ["add", "update"]


def test_a_session_without_a_name_gets_one(context: ToolContext):
    name = ask(context, "mem_session", action="start").data["session"]
    assert saved(context, "Something.").scope.session == name
    assert ask(context, "mem_session", action="end", summary="Done.").data["session"] == name


def test_a_session_that_is_started_again_keeps_its_summary(context: ToolContext):
    first = ask(context, "mem_session", action="start", session="s1", summary="Mend the clock.")
    ask(context, "mem_session", action="end", summary="The clock goes again.")
    again = ask(context, "mem_session", action="start", session="s1")
    assert again.text.startswith("resumed session s1; ")
    assert (again.data["outcome"], again.data["id"]) == ("resumed", first.data["id"])
    assert context.bag.get(first.data["id"]).text == "The clock goes again."
    assert saved(context, "Once more.").scope.session == "s1"
    other = ask(context, "mem_session", action="start", session="s1", project="atlas")
    assert (other.data["outcome"], other.data["id"] != first.data["id"]) == ("started", True)


def test_a_session_ends_with_a_summary_or_not_at_all(context: ToolContext):
    with pytest.raises(InputError, match="no session was started here; name the one to end"):
        ask(context, "mem_session", action="end", summary="Done.")
    ask(context, "mem_session", action="start", session="s1")
    for blank in (None, "", "  "):
        with pytest.raises(InputError, match="needs summary to end a session"):
            ask(context, "mem_session", action="end", summary=blank)
    assert saved(context, "Still inside.").scope.session == "s1"


def test_another_session_can_be_ended_by_its_name(context: ToolContext):
    ask(context, "mem_session", action="start", session="s1")
    assert ask(context, "mem_session", action="end", session="s0", summary="Long over.").data["session"] == "s0"
    assert saved(context, "Still inside.").scope.session == "s1"


def test_where_clients_share_a_server_none_writes_into_the_session_of_another(tmp_path: Path):
    with empty_context(tmp_path, remembers_session=False) as context:
        answer = ask(context, "mem_session", action="start", session="s1")
        assert answer.text == "started session s1; give it as session to mem_save"
        assert saved(context, "Of another client.").scope.session is None
        with pytest.raises(InputError, match="name the one to end"):
            ask(context, "mem_session", action="end", summary="Done.")
        assert (
            ask(context, "mem_session", action="end", session="s1", summary="Done.").data["id"] == answer.data["id"]
        )


def test_a_save_names_the_similar_memories_and_how_to_replace_one(context: ToolContext):
    old = context.bag.add("Our CI runs on Jenkins.", project="atlas", at="2026-01-05")
    context.bag.add("Our CI runs on Jenkins.", project="boreal")
    answer = ask(context, "mem_save", text="We moved CI from Jenkins to GitHub Actions.", project="atlas")
    own, name = context.bag.short_ids([answer.data["id"], old.id])
    how = f"mem_relate(id={own}, target=ID, kind=supersedes)"
    assert answer.text.splitlines()[1:] == [
        f'Similar; if this replaces one: {how}, or next time relate_to=["supersedes:ID"]',
        f"{name} 2026-01-05 Our CI runs on Jenkins.",
    ]
    assert answer.data["similar"] == [{"id": name, "at": "2026-01-05", "headline": "Our CI runs on Jenkins."}]
    assert answer.data["to_replace"] == how
    ask(context, "mem_relate", id=own, target=name, kind="supersedes")
    assert context.bag.get(old.id).superseded_by == answer.data["id"]


def test_what_a_save_supersedes_or_links_is_not_named_again(context: ToolContext):
    first, second = (context.bag.add(f"Our CI runs on Jenkins {number}.") for number in (1, 2))
    moved = "We moved CI from Jenkins to GitHub Actions."
    answer = ask(
        context, "mem_save", text=moved, relate_to=[f"supersedes:{first.id}", second.id.replace("-", "").upper()]
    )
    assert "similar" not in answer.data
    assert "\n" not in answer.text


@pytest.mark.parametrize(
    "start",
    [
        "Our CI runs on Jenkins. ",
        "Our CI runs on Jenkins 東京の会議室は三階です。" * 3,
        "CI Jenkins \N{PARTY POPPER}\x1b[31m\r\n\u2028\N{RIGHT-TO-LEFT OVERRIDE}" * 4,
        "Jenkins-CI-" + "0123456789abcdef" * 6,
    ],
)
def test_what_is_said_of_similar_memories_has_at_most_100_tokens_as_text_and_as_data(
    context: ToolContext, start: str
):
    count = context.bag.counter.count
    for number in range(4):
        context.bag.add(f"{start} {number}", title=start.split("\r")[0][:200])
    answer = ask(context, "mem_save", text=f"{start} moved", title=start.split("\r")[0][:200])
    first, _, rest = answer.text.partition("\n")
    named = answer.data["similar"]
    assert 1 <= len(named) <= 3
    assert count(f"\n{rest}") <= 100
    assert count(as_json({name: answer.data[name] for name in ("similar", "to_replace")})) <= 100
    lines = rest.split("\n")
    assert len(lines) == 1 + len(named)
    assert all(line.isprintable() or "\N{RIGHT-TO-LEFT OVERRIDE}" in line for line in lines)
    assert first.startswith("saved ")


def test_a_turn_and_a_note_that_is_like_nothing_are_saved_without_a_word_more(context: ToolContext):
    context.bag.add("Our CI runs on Jenkins.")
    for text, tier in (("Our CI runs on Jenkins.", "conversation"), ("The logo is blue.", "knowledge")):
        answer = ask(context, "mem_save", text=text, tier=tier)
        assert answer.data.keys() == {"id", "outcome", "revision", "tokens"}
        assert "\n" not in answer.text


def test_a_save_is_told_as_done_where_the_similar_ones_cannot_be_read(
    context: ToolContext, monkeypatch: pytest.MonkeyPatch
):
    def busy(*_: object, **__: object) -> None:
        raise StoreBusyError("locked")

    context.bag.add("Our CI runs on Jenkins.")
    monkeypatch.setattr(Satchel, "similar", busy)
    answer = ask(context, "mem_save", text="We moved CI from Jenkins to GitHub Actions.")
    assert answer.data["outcome"] == "saved"
    assert "similar" not in answer.data


# Fields that are emptied, and memories that move.


def test_an_empty_value_empties_nothing_and_clear_does(context: ToolContext):
    memory = saved(context, "We deploy on Fridays.", title="Day", tags=["ops"], topic_key="day", project="atlas")
    ask(context, "mem_update", id=memory.id, pinned=True)
    ask(context, "mem_update", id=memory.id, text="We deploy daily.", title="", tags=[], topic_key="")
    kept = context.bag.get(memory.id)
    assert (kept.title, kept.tags, kept.topic_key, kept.pinned) == ("Day", ("ops",), "day", True)
    ask(context, "mem_update", id=memory.id, clear="title, tags, topic_key, pinned, project")
    emptied = context.bag.get(memory.id)
    assert (emptied.title, emptied.tags, emptied.topic_key, emptied.pinned) == (None, (), None, False)
    assert (emptied.scope.project, emptied.text) == (None, "We deploy daily.")


def test_what_cannot_be_emptied_or_is_also_set_is_refused(context: ToolContext):
    memory = saved(context, "We deploy on Fridays.", title="Day")
    before = contents(context)
    for arguments, message in (
        ({"clear": "text"}, "unknown clear 'text'; known: title, tags, topic_key, pinned, project"),
        ({"clear": "title", "title": "Night"}, "title is both set and in clear; give one of them"),
        ({"clear": ""}, "nothing to change was given; to empty a field, clear takes title, tags, "),
    ):
        with pytest.raises(InputError, match=message):
            ask(context, "mem_update", id=memory.id, **arguments)
    assert contents(context) == before


def test_a_memory_moves_to_another_project_or_topic(context: ToolContext):
    memory = saved(context, "We deploy on Fridays.", project="atlas", topic_key="day")
    answer = ask(context, "mem_update", id=memory.id, move_to="boreal", topic_key="deploy/day")
    assert answer.data["revision"] == 2
    moved = context.bag.get(memory.id)
    assert (moved.scope.project, moved.topic_key) == ("boreal", "deploy/day")
    assert "Fridays" in ask(context, "mem_search", query="deploy", project="boreal").text
    assert "Fridays" not in ask(context, "mem_search", query="deploy", project="atlas").text


def test_the_server_of_a_project_moves_no_memory_out_of_it(context: ToolContext, tmp_path: Path):
    memory = saved(context, "We deploy on Fridays.", project="atlas")
    inside = ToolContext(context.bag.scoped(project="atlas"), context.specs)
    for arguments in ({"move_to": "boreal"}, {"clear": "project"}):
        with pytest.raises(InputError, match="is outside this view, which is project 'atlas'"):
            ask(inside, "mem_update", id=memory.id, **arguments)
    assert context.bag.get(memory.id).revision == 1


# Several memories in one write.


def test_several_memories_are_saved_in_one_write(context: ToolContext):
    known = saved(context, "Keys rotate hourly.", project="atlas")
    answer = ask(
        context,
        "mem_save_many",
        memories=[
            {"text": "We deploy on Fridays.", "title": "Day", "kind": "Decision", "tags": "ops, calendar"},
            {"text": "Keys rotate hourly."},
            "The clock stops at noon.",
            {"content": "Wind it at eleven.", "mood": "fine", "session": "s2"},
        ],
        project="atlas",
        session="s1",
    )
    stored = [context.bag.get(each["id"]) for each in answer.data["memories"]]
    assert [each["outcome"] for each in answer.data["memories"]] == ["saved"] * 4
    assert (stored[0].title, stored[0].kind, stored[0].tags) == ("Day", "decision", ("ops", "calendar"))
    assert [each.text for each in stored[2:]] == ["The clock stops at noon.", "Wind it at eleven."]
    assert [(each.scope.project, each.scope.session) for each in stored] == [
        ("atlas", "s1"), ("atlas", "s1"), ("atlas", "s1"), ("atlas", "s2"),
    ]  # fmt: skip
    first, remark = answer.text.split("\n")
    assert first == f"saved 4 memories: {' '.join(context.bag.short_ids(stored))}"
    assert remark == "memories[3] content was read as text; ignored: mood"
    again = ask(context, "mem_save_many", memories=["Keys rotate hourly.", "New."], project="atlas")
    assert [each["outcome"] for each in again.data["memories"]] == ["confirmed", "saved"]
    assert again.data["memories"][0]["id"] == known.id
    assert again.text.startswith("saved 1 memory: ")
    assert again.text.split("\n")[1] == f"confirmed 1 memory: {short(context, known.id)}"


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"text": "x", "kind": "idea"}, r"memories\[1\]: unknown kind 'idea'; known: .*; nothing was saved$"),
        ({"title": "x"}, r"memories\[1\] needs text; nothing was saved$"),
        ({"text": " "}, r"memories\[1\]: text is empty; .*; nothing was saved$"),
        (
            {"text": "x", "topic_key": "ghp_0123456789abcdefghijABCDEFGHIJ012345"},
            r"memories\[1\]: topic_key looks ",
        ),
        ({"text": "x", "project": "boreal"}, r"memories\[1\]: project 'boreal' is outside this view"),
        (7, r"memories\[1\] must be an object with text, not 7$"),
    ],
)
def test_one_wrong_memory_of_several_is_named_and_none_is_saved(context: ToolContext, wrong: object, message: str):
    before = contents(context)
    with pytest.raises(InputError, match=message):
        ask(context, "mem_save_many", memories=[{"text": "Right."}, wrong], project="atlas")
    assert contents(context) == before


@pytest.mark.parametrize("wrong", [[], "", "text", {"text": "x"}, 7, [{"text": "x"}] * 1_001])
def test_what_is_no_list_of_memories_is_refused(context: ToolContext, wrong: object):
    with pytest.raises(InputError, match=r"^memories "):
        ask(context, "mem_save_many", memories=wrong)


def test_a_list_of_memories_may_come_as_its_json_and_belongs_to_the_session_that_was_started(context: ToolContext):
    ask(context, "mem_session", action="start", session="s1", project="atlas")
    answer = ask(context, "mem_save_many", memories='[{"text": "One."}, {"text": "Other."}]')
    scopes = [context.bag.get(each["id"]).scope for each in answer.data["memories"]]
    assert [(scope.project, scope.session) for scope in scopes] == [("atlas", "s1")] * 2


# Forget by filter, and undo.


def test_a_filter_counts_first_and_forgets_what_was_counted(context: ToolContext):
    for number in range(3):
        saved(context, f"Buy {number} lamps.", kind="todo", project="atlas")
    saved(context, "Buy a boat.", kind="todo", project="boreal")
    asked = {"kind": "todo", "project": "atlas"}
    before = contents(context)
    counted = ask(context, "mem_forget", **asked)
    assert counted.text == (
        "would forget 3 memories; nothing was changed. mem_list shows them; the same call with confirm=3 does it"
    )
    assert counted.data == {"count": 0, "purged": False, "confirm": 3}
    assert ask(context, "mem_forget", **asked, confirm=2).text == counted.text
    assert contents(context) == before
    done = ask(context, "mem_forget", **asked, confirm=3)
    assert done.text == f"forgot 3 memories; undo: mem_forget(undo={done.data['undo']})"
    assert [memory.text for memory in context.bag.recent()] == ["Buy a boat."]
    assert ask(context, "mem_forget", **asked).text == "would forget 0 memories; nothing was changed"


def test_what_one_call_forgot_is_restored_by_its_undo(context: ToolContext):
    first, second, third = (saved(context, f"Buy {number} lamps.", tags=["shop"]) for number in range(3))
    early = ask(context, "mem_forget", id=first.id)
    done = ask(context, "mem_forget", tags="shop", confirm=2)
    undone = ask(context, "mem_forget", undo=done.data["undo"])
    assert (undone.text, undone.data) == ("restored 2 memories", {"count": 2, "restored": True})
    assert {memory.id for memory in context.bag.recent()} == {second.id, third.id}
    assert ask(context, "mem_forget", undo=done.data["undo"]).text == "restored 0 memories"
    assert ask(context, "mem_forget", undo=early.data["undo"]).text == "restored 1 memory"
    for wrong in ("yesterday evening", "k3f7"):
        with pytest.raises(InputError, match=f"undo '{wrong}' is not a time"):
            ask(context, "mem_forget", undo=wrong)
    with pytest.raises(InputError, match="undo restores all that one call forgot; leave out tags"):
        ask(context, "mem_forget", undo=done.data["undo"], tags="shop")


def test_to_purge_by_filter_is_counted_first_and_cannot_be_undone(context: ToolContext):
    memory = saved(context, "Buy a lamp.", kind="todo")
    assert ask(context, "mem_forget", kind="todo", purge=True).text.startswith("would purge 1 memory; nothing was")
    done = ask(context, "mem_forget", kind="todo", purge=True, confirm=1)
    assert (done.text, done.data) == ("purged 1 memory", {"count": 1, "purged": True})
    with pytest.raises(UnknownIdError):
        context.bag.get(memory.id)


def test_a_project_alone_forgets_nothing(context: ToolContext):
    saved(context, "Buy a lamp.", project="atlas")
    with pytest.raises(InputError, match="mem_forget needs id, or a filter: kind, tags, since or until"):
        ask(context, "mem_forget", project="atlas", confirm=1)


def test_the_server_of_a_project_forgets_and_restores_nothing_beyond_it(context: ToolContext):
    theirs = saved(context, "Buy a boat.", kind="todo", project="boreal")
    inside = ToolContext(context.bag.scoped(project="atlas"), context.specs)
    assert ask(inside, "mem_forget", kind="todo").data["confirm"] == 0
    undo = ask(context, "mem_forget", id=theirs.id).data["undo"]
    assert ask(inside, "mem_forget", undo=undo).data["count"] == 0
    assert context.bag.recent() == []
