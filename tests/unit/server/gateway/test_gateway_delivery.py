"""Delivery of a tool result through a session: what the client gets, and what is stored."""

import json
import re

import pytest

import satchel
from gateway_upstream import sample
from satchel import Budget
from satchel.errors import StoreFullError
from satchel.server.gateway.delivery import Call, Delivery
from satchel.server.gateway.router import DEFINITIONS, OwnTools, taken_arguments
from satchel.session.account import Account
from satchel.session.session import enter_all
from satchel.text.tokens import count_tokens

IMAGE = {"type": "image", "data": "aGVsbG8=", "mimeType": "image/png"}
LINK = {"type": "resource_link", "uri": "test://link", "name": "link"}


@pytest.fixture(scope="module")
def bag():
    with satchel.open(":memory:", embedder="none") as opened:
        yield opened


@pytest.fixture
def session(bag, request):
    return bag.session(request.node.name[:60], budget=Budget(total=1_000_000, per_call=1_000), holds="whole")


@pytest.fixture
def deliver(session):
    delivery = Delivery(session)

    def delivered(result, **options):
        return done(delivery, result, **options)

    return delivered


def done(delivery, result, **options):
    """The answer, and afterwards what is done about it."""
    call = Call(tool="tool", arguments={}, **options)
    answer, afterwards = delivery(call, result, new_turn=True)
    if afterwards is not None:
        enter_all([afterwards])
    return answer


def texts(answer):
    return [part["text"] for part in answer["content"] if part["type"] == "text"]


def said(*parts, **more):
    return {
        "content": [part if isinstance(part, dict) else {"type": "text", "text": part} for part in parts],
        **more,
    }


def whole(session):
    return session.expand(session.results(limit=1)[0].handle)


def rest(session, answer):
    """All pages of an answer, joined."""
    (entry,) = session.results(limit=1)
    cursor = next(line for line in "\n".join(texts(answer)).splitlines() if "cursor=" in line).split("cursor=")[1]
    contents = []
    while cursor:
        page = session.page(cursor)
        assert page.token_count <= 1_000
        contents.append(page.content)
        cursor = page.cursor
    return entry, "".join(contents)


def test_what_fits_is_passed_as_it_came_with_a_note_of_its_own_behind_it(deliver, session):
    answer = deliver(said('{"a": 1}', IMAGE, "two", LINK, _meta={"x": 1}))
    assert answer["content"][:4] == said('{"a": 1}', IMAGE, "two", LINK)["content"]
    assert len(answer["content"]) == 5
    assert "tokens" in answer["content"][4]["text"]
    assert answer["_meta"] == {"x": 1}
    assert "isError" not in answer
    assert whole(session) == '{"a": 1}\ntwo'


def test_what_does_not_fit_is_replaced_by_its_first_page_where_its_text_stood(deliver, session):
    text = sample("lines", 50_000)
    answer = deliver(said(IMAGE, text, LINK, "more"))
    assert [part["type"] for part in answer["content"]] == ["image", "text", "resource_link"]
    assert count_tokens(texts(answer)[0]) <= 1_000
    entry, others = rest(session, answer)
    assert f"{text}\nmore" == whole(session) == text[: entry.stop] + others


def test_the_texts_of_an_answer_never_exceed_the_allocation_however_they_are_counted(deliver):
    for size in range(1_500, 3_500, 40):
        answer = deliver(said(sample("lines", size), sample("emoji", 60), sample("json", 30)))
        assert sum(map(count_tokens, texts(answer))) <= 1_000
        assert count_tokens("\n".join(texts(answer))) <= 1_000


def test_parts_that_cost_more_apart_than_joined_are_joined_where_they_would_not_fit(deliver, session):
    answer = deliver(said(*["\n"] * 1_500))
    assert sum(map(count_tokens, texts(answer))) <= 1_000
    assert whole(session) == "\n" * 2_999


def test_text_inside_a_resource_is_text(deliver, session):
    inside = {"type": "resource", "resource": {"uri": "test://in", "text": "inside"}}
    assert deliver(said("out", inside))["content"][1] == inside
    assert whole(session) == "out\ninside"
    large = {"type": "resource", "resource": {"uri": "test://in", "text": sample("lines", 20_000)}}
    assert [part["type"] for part in deliver(said("out", large))["content"]] == ["text"]


def test_images_are_counted_and_leave_less_room_for_text(deliver, session):
    before = session.state().used["tool_results"]
    answer = deliver(said(IMAGE, sample("lines", 20_000)))
    assert session.state().used["tool_results"] - before >= 1_600
    assert 200 < count_tokens(texts(answer)[0]) <= 400
    assert "cursor=" in texts(answer)[0]


@pytest.mark.parametrize("size", [20, 50_000])
def test_an_error_stays_an_error(deliver, session, size):
    answer = deliver(said(sample("lines", size), isError=True))
    assert answer["isError"] is True
    assert sum(map(count_tokens, texts(answer))) <= 1_000
    assert session.results(limit=1)[0].error


def cost(structured):
    return count_tokens(json.dumps(structured, indent=2))


def test_structured_content_that_fits_with_the_text_is_passed_unchanged_and_counted(deliver, session):
    data = {"records": [{"id": 1, "name": "日本語"}]}
    text = json.dumps(data)
    answer = deliver(said(text, structuredContent=data))
    assert answer["structuredContent"] == data
    assert answer["content"][0] == said(text)["content"][0]
    assert f" and ~{cost(data)} beside the text" in texts(answer)[1]
    shown = count_tokens("\n".join(texts(answer)))
    assert session.state().used["tool_results"] == shown + cost(data)


def test_text_and_structured_content_together_never_exceed_the_allocation(deliver):
    passed = []
    for size in range(200, 6_000, 150):
        data = {"records": sample("emoji", size).splitlines()}
        answer = deliver(said(json.dumps(data, ensure_ascii=False), structuredContent=data))
        passed.append("structuredContent" in answer)
        beside = cost(answer["structuredContent"]) if passed[-1] else 0
        assert sum(map(count_tokens, texts(answer))) + beside <= 1_000
    assert passed == sorted(passed, reverse=True)
    assert passed[0] is True
    assert passed[-1] is False


def test_text_that_fits_only_without_its_structured_content_comes_whole_and_alone(deliver, session):
    text = sample("json", 2_000)
    answer = deliver(said(text, structuredContent={"records": json.loads(text)}))
    assert "structuredContent" not in answer
    assert texts(answer)[0] == whole(session) == text
    assert "cursor=" not in texts(answer)[1]


@pytest.mark.parametrize(
    "structured", [{"content": "short"}, {"result": {"text": "short"}}, {"content": ["short"]}]
)
def test_structured_content_that_is_only_the_text_in_a_wrapper_is_not_passed_on(deliver, session, structured):
    before = session.state().used["tool_results"]
    answer = deliver(said("short", structuredContent=structured))
    assert "structuredContent" not in answer
    assert texts(answer)[0] == "short"
    assert session.state().used["tool_results"] - before == count_tokens("\n".join(texts(answer)))


def test_a_picture_is_not_passed_on_again_as_structured_content(deliver, session):
    alone = deliver(said(IMAGE))
    tokens = session.state().used["tool_results"]
    again = deliver(said(IMAGE, structuredContent={"content": [IMAGE]}))
    assert again.keys() == alone.keys()
    assert again["content"][0] == IMAGE
    assert session.state().used["tool_results"] == 2 * tokens


TEXT = sample("lines", 20_000)
JSON = sample("json", 20_000)
VALUE = json.loads(JSON)
BLOCK = {"type": "text", "text": TEXT}


@pytest.mark.parametrize(
    ("parts", "structured"),
    [
        ([TEXT], {"content": TEXT}),
        ([TEXT], {"result": TEXT}),
        ([TEXT], {"result": {"content": [TEXT]}}),
        ([TEXT], {"content": [BLOCK]}),
        ([TEXT], {"content": [BLOCK | {"annotations": {"priority": 1}}]}),
        ([TEXT], {"content": TEXT.replace("\n", "\r\n")}),
        ([TEXT], {"content": TEXT.strip() + "\n\n"}),
        ([TEXT], {}),
        ([JSON], {"content": JSON}),
        ([JSON], {"content": json.dumps(VALUE, indent=2)}),
        ([JSON], {"result": VALUE}),
        ([JSON], {"records": VALUE}),
        ([json.dumps(VALUE, indent=4)], {"records": VALUE}),
        ([json.dumps({"b": VALUE, "a": "x"})], {"a": "x", "b": VALUE}),
        (["[1, 2]"], {"result": [1, 2]}),
        (["3"], {"result": 3}),
        (["one", '{"n": 2}'], {"result": ["one", {"n": 2}]}),
        (["one", TEXT], {"result": [{"type": "text", "text": "one"}, BLOCK]}),
        (["one", "two"], {"content": "one\ntwo"}),
        (["one", "two"], {"content": "onetwo"}),
        (["one", "two"], {"result": ["one"]}),
        (["summary", TEXT], {"content": TEXT}),
        ([IMAGE, "seen"], {"content": [IMAGE, {"type": "text", "text": "seen"}]}),
        ([IMAGE], {"content": [IMAGE]}),
    ],
)
def test_structured_content_that_says_the_same_is_one_result_with_the_text(deliver, session, parts, structured):
    deliver(said(*parts, structuredContent=structured))
    alone = "\n".join(part for part in parts if isinstance(part, str))
    assert whole(session) == alone
    assert session.results(limit=1)[0].total_tokens == count_tokens(alone)


def test_json_beside_its_repetition_keeps_its_shape(deliver, session):
    answer = deliver(said(JSON, structuredContent={"content": JSON}))
    entry = session.results(limit=1)[0]
    assert entry.shape == "json"
    shown = texts(answer)[0].count('"id"')
    assert f"records 1–{shown} of {len(VALUE)}" in texts(answer)[0]
    found = session.find(entry.handle, '"record 17"')
    assert found.matches == 1


@pytest.mark.parametrize(
    ("parts", "structured"),
    [
        (["one"], {"result": "two"}),
        (["one", "two"], {"result": ["two", "one"]}),
        (["{"], {"a": 1}),
        (['{"a": 1}'], {"a": True}),
        (['{"a": 1}'], {"a": 1, "b": 2}),
        (["ok"], {"result": []}),
    ],
)
def test_structured_content_that_says_more_is_kept_below_the_text(deliver, session, parts, structured):
    deliver(said(*parts, structuredContent=structured))
    text, kept = whole(session).split("\n\nstructuredContent:\n")
    assert text == "\n".join(parts)
    assert json.loads(kept) == structured


def test_structured_content_without_text_is_the_result(deliver, session):
    deliver(said(structuredContent={"records": VALUE}))
    assert json.loads(whole(session)) == {"records": VALUE}
    assert session.results(limit=1)[0].shape == "json"


def test_of_structured_content_that_says_more_the_text_is_not_kept_twice(deliver, session):
    answer = deliver(said(TEXT, structuredContent={"stdout": TEXT, "stderr": "", "exit_code": 1}))
    text, kept = whole(session).split("\n\nstructuredContent:\n")
    assert text == TEXT
    assert json.loads(kept) == {"stdout": "(the text above)", "stderr": "", "exit_code": 1}
    assert "structuredContent" not in answer


def test_structured_content_that_does_not_fit_is_paged_as_text(deliver, session):
    data = {"records": list(range(5_000))}
    answer = deliver(said("short", structuredContent=data))
    assert "structuredContent" not in answer
    entry, others = rest(session, answer)
    assert json.loads((whole(session)[: entry.stop] + others).split("structuredContent:\n")[1]) == data


@pytest.mark.parametrize(
    "result", [None, [], "text", {"content": "text"}, {"content": ["text"]}, {"content": None}]
)
def test_what_is_no_result_of_a_tool_is_an_error_that_says_so(deliver, result):
    answer = deliver(result)
    assert answer["isError"] is True
    assert "did not answer with a tool result" in texts(answer)[0]


def test_an_empty_result_is_passed_with_its_note(deliver):
    assert len(deliver({"content": []})["content"]) == 1
    assert len(deliver({})["content"]) == 1


def test_a_warning_comes_once_in_a_line_of_its_own(bag):
    session = bag.session("warned", budget=Budget(total=100_000, per_call=1_000), holds="whole")
    session.record("system", sample("lines", 160_000))
    delivery = Delivery(session)
    answers = [done(delivery, said("short")) for _ in range(3)]
    alerts = [any(line.startswith("[Budget ") for line in texts(each)[-1].splitlines()) for each in answers]
    assert alerts == [True, False, False]
    assert texts(answers[0])[0] == "short"


def test_a_result_is_not_cut_to_warn_and_the_next_one_does(bag, monkeypatch):
    session = bag.session("unsaid", budget=Budget(total=100_000, per_call=1_000), holds="whole")
    delivery = Delivery(session)
    session.record("system", sample("lines", 160_000))
    monkeypatch.setattr(Account, "warning", "[Budget Alert: " + "very low " * 200 + "]")
    assert "[Budget" not in "".join(texts(done(delivery, said(sample("lines", 2_500)))))
    assert "[Budget Alert" in "".join(texts(done(delivery, said("short"))))
    assert "[Budget" not in "".join(texts(done(delivery, said("short"))))


@pytest.mark.parametrize("used", range(48_000, 69_000, 3_000))
def test_the_stated_tokens_are_those_of_all_lines_and_both_lines_give_the_same_figure(bag, used):
    session = bag.session(f"stated {used}", budget=Budget(total=100_000, per_call=1_000), holds="whole")
    session.record("system", "word " * used)
    delivery = Delivery(session)
    warned = 0
    for size in range(20, 4_000, 331):
        text = "\n".join(texts(done(delivery, said(sample("lines", size).rstrip()))))
        stated, left = re.search(r"📏 ~([\d,]+) tokens; ~(\w+) left", text).groups()
        assert int(stated.replace(",", "")) == count_tokens(text) <= 1_000
        if alert := re.search(r"\[Budget \w+: ~(\w+) tokens remaining", text):
            warned += 1
            assert alert[1] == left
    # Each level once, as the figure passes it.
    assert warned == (used + 4_000 > 50_000) + (50_000 < used < 60_000 and session.state().remaining < 10_000)


def test_without_a_known_window_only_the_cost_of_the_call_is_stated(bag):
    session = bag.session("assumed", budget=Budget(per_call=1_000, assumed=True), holds="whole")
    delivery = Delivery(session)
    for _ in range(120):
        answer = done(delivery, said(sample("lines", 3_000)))
        assert re.fullmatch(r"📏 ~[\d,]+ tokens", texts(answer)[-1].splitlines()[-1])
        assert "Budget " not in texts(answer)[-1].replace("Budget allows", "")
    assert session.warning() is None
    status = json.loads(texts(OwnTools(session, dict, settle=bool)("budget_status", {}, new_turn=False).answer)[0])
    assert not status.keys() & {"remaining", "total_budget", "warning"}
    assert status["used"].keys() == {"system", "history", "tool_results", "user"}
    assert "--model" in status["window"]


def full(*arguments, **options):
    raise StoreFullError("the disk is full")


def test_a_store_that_cannot_be_read_does_not_lose_what_a_tool_said(deliver, session, monkeypatch):
    monkeypatch.setattr(session, "prepare", full)
    answer = deliver(said("done", IMAGE, structuredContent={"content": "done"}))
    assert answer["content"][:2] == said("done", IMAGE)["content"]
    assert texts(answer)[1] == "[this result is not recorded: the disk is full]"
    answer = deliver(said(sample("lines", 200_000), IMAGE, structuredContent={"a": 1}))
    assert 800 < sum(map(count_tokens, texts(answer))) <= 1_000
    assert texts(answer)[0].endswith("[the end of this result is cut off and not kept: the disk is full]")
    assert IMAGE in answer["content"]


def test_a_page_of_what_cannot_be_stored_says_so_and_offers_no_cursor(deliver, session, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(session._ledger, "posting", full)
        answer = deliver(said(TEXT))
    assert 800 < count_tokens(texts(answer)[0]) <= 1_000
    assert "cursor=" not in texts(answer)[0]
    assert "handle=" not in texts(answer)[0]
    lines = TEXT.count("\n")
    assert re.search(
        rf"\[lines 1–\d+ of {lines}; the rest \(~[\d,]+ tokens\) is not kept: the disk is full\]", texts(answer)[0]
    )
    assert "cursor=" in texts(deliver(said(TEXT)))[0]


def test_what_is_stored_is_read_while_nothing_can_be_written(deliver, session, monkeypatch):
    answer = deliver(said(TEXT))
    cursor = re.search(r"cursor=(\S+)", texts(answer)[0])[1]
    own = OwnTools(session, dict, settle=bool)
    monkeypatch.setattr(session._ledger, "posting", full)
    page = own("result_page", {"cursor": cursor}, new_turn=True).answer
    assert "isError" not in page
    assert texts(page)[0].startswith("src/part_")
    found = own("result_find", {"handle": cursor, "pattern": "handler_7"}, new_turn=True).answer
    assert "def handler_7(" in texts(found)[0]


def test_what_leads_to_more_is_entered_before_it_is_answered(session):
    delivery = Delivery(session)
    call = Call(tool="tool", arguments={})
    paged = delivery(call, said(sample("lines", 50_000)), new_turn=True)
    assert paged.to_enter is None
    assert session.state().results == 1
    whole = delivery(call, said("short"), new_turn=True)
    assert session.state().results == 1
    enter_all([whole.to_enter])
    assert session.state().results == 2


def test_our_own_tools_cost_at_most_350_tokens():
    assert count_tokens(json.dumps(DEFINITIONS, separators=(",", ":"))) <= 350


@pytest.mark.parametrize(
    ("tool", "arguments", "complaint"),
    [
        ("result_page", {}, "cursor is missing"),
        ("result_page", {"cursor": 3}, "cursor is missing"),
        ("result_page", {"cursor": "nonsense"}, "is not a cursor"),
        ("result_find", {"handle": "x"}, "pattern is missing"),
        ("result_find", {"handle": "x", "pattern": "y"}, "x"),
    ],
)
def test_what_is_wrong_with_a_call_of_our_own_tools_is_said_in_one_line(session, tool, arguments, complaint):
    answer = OwnTools(session, dict, settle=bool)(tool, arguments, new_turn=False).answer
    assert answer["isError"] is True
    assert complaint in texts(answer)[0]
    assert "\n" not in texts(answer)[0]


def test_a_result_is_found_in_by_its_handle_and_the_budget_told(deliver, session):
    deliver(said(sample("log", 50_000)))
    settled = []
    own = OwnTools(session, lambda: {"fs": "ready"}, settle=lambda: settled.append(1))
    handle = session.results(limit=1)[0].handle
    found = texts(
        own("result_find", {"handle": handle, "pattern": "ERROR", "max_tokens": 300}, new_turn=False).answer
    )[0]
    assert "ERROR step 50 done" in found
    assert count_tokens(found) <= 300
    status = json.loads(texts(own("budget_status", {}, new_turn=False).answer)[0])
    assert status["servers"] == {"fs": "ready"}
    assert settled == [1, 1]
    assert status["remaining"] < status["total_budget"]


def test_unknown_arguments_of_our_own_tools_are_ignored_and_named(deliver, session):
    cursor = re.search(r"cursor=(\S+)", texts(deliver(said(TEXT)))[0])[1]
    own = OwnTools(session, dict, settle=bool)
    page = own("result_page", {"cursor": cursor, "wait_for_previous": True, "max_tokens": 200}, new_turn=False)
    (text,) = texts(page.answer)
    assert "\n[ignored: wait_for_previous]\n" in text
    stated = re.search(r"📏 ~(\d+) tokens", text)[1]
    assert int(stated) == count_tokens(text) <= 200
    found = own(
        "result_find", {"handle": cursor, "pattern": "handler_7", "patern": "x", "max_tokens": 0}, new_turn=False
    )
    assert "\n[ignored: patern; did you mean pattern?]\n" in texts(found.answer)[0]
    status = json.loads(texts(own("budget_status", {"wait_for_previous": False}, new_turn=False).answer)[0])
    assert status["ignored"] == ["wait_for_previous"]


STRICT = {"type": "object", "properties": {"path": {"type": "string"}}, "additionalProperties": False}


@pytest.mark.parametrize(
    ("definition", "arguments", "taken", "remark"),
    [
        ({"inputSchema": STRICT}, {"path": "a"}, {"path": "a"}, None),
        (
            {"inputSchema": STRICT},
            {"path": "a", "wait_for_previous": True},
            {"path": "a"},
            "[ignored: wait_for_previous]",
        ),
        # A tool that changes something must see what was meant.
        ({"inputSchema": STRICT}, {"paths": "a"}, {"paths": "a"}, None),
        (
            {"inputSchema": STRICT, "annotations": {"readOnlyHint": True}},
            {"paths": "a", "x": 1},
            {},
            "[ignored: paths, x; did you mean path?]",
        ),
        # What a schema allows or declares is the server's.
        ({"inputSchema": {"type": "object"}}, {"wait_for_previous": 1}, {"wait_for_previous": 1}, None),
        (
            {"inputSchema": STRICT | {"properties": {"wait_for_previous": {}}}},
            {"wait_for_previous": 1},
            {"wait_for_previous": 1},
            None,
        ),
        (
            {"inputSchema": STRICT | {"patternProperties": {"^w": {}}}},
            {"wait_for_previous": 1},
            {"wait_for_previous": 1},
            None,
        ),
        ({"inputSchema": STRICT | {"properties": 3}}, {"wait_for_previous": 1}, {"wait_for_previous": 1}, None),
        ({}, {"a": 1}, {"a": 1}, None),
    ],
)
def test_arguments_that_a_server_would_refuse_are_left_out_where_that_changes_nothing(
    definition, arguments, taken, remark
):
    assert taken_arguments("tool", definition, arguments) == (taken, remark)


def test_the_remark_about_a_call_is_counted_in_its_note(deliver):
    answer = deliver(said("short"), remark="[ignored: wait_for_previous]")
    assert texts(answer)[1].startswith("[ignored: wait_for_previous]\n📏 ~")
    stated = re.search(r"📏 ~(\d+) tokens", texts(answer)[1])[1]
    assert int(stated) == count_tokens("\n".join(texts(answer)))
