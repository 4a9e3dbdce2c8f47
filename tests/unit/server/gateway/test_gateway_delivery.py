"""Delivery of a tool result through a session: what the client gets, and what is stored."""

import json

import pytest

import satchel
from gateway_upstream import sample
from satchel import Budget
from satchel.errors import StoreFullError
from satchel.server.gateway.delivery import Call, Delivery
from satchel.server.gateway.router import DEFINITIONS, OwnTools
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

    def delivered(result, *, promises_structure=False):
        return done(delivery, result, promises_structure=promises_structure)

    return delivered


def done(delivery, result, *, promises_structure=False):
    """The answer, and afterwards what is done about it."""
    call = Call(tool="tool", arguments={}, promises_structure=promises_structure)
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


def test_structured_content_that_fits_is_passed_unchanged(deliver):
    data = {"records": [{"id": 1, "name": "one"}]}
    answer = deliver(said(json.dumps(data), structuredContent=data), promises_structure=True)
    assert answer["structuredContent"] == data


@pytest.mark.parametrize("apart", [False, True])
def test_structured_content_that_does_not_fit_becomes_a_page_with_its_text(deliver, session, apart):
    data = {"records": [{"id": n, "name": f"record {n}"} for n in range(2_000)]}
    text = "see there" if apart else json.dumps(data)
    answer = deliver(said(text, structuredContent=data), promises_structure=True)
    page = answer["structuredContent"]
    assert page["continuation_token"] in texts(answer)[0]
    assert page["text"] == texts(answer)[0]
    assert count_tokens(json.dumps(page, ensure_ascii=False)) <= 1_000
    assert page["returned"] < page["total"]
    assert json.loads(whole(session).removeprefix("see there\n\nstructuredContent:\n")) == data


def test_structured_content_that_nothing_promises_is_left_out_where_it_does_not_fit(deliver, session):
    data = {"records": list(range(5_000))}
    answer = deliver(said("short", structuredContent=data))
    assert "structuredContent" not in answer
    assert json.loads(whole(session).split("structuredContent:\n")[1]) == data


@pytest.mark.parametrize(
    ("parts", "structured"),
    [
        (['{"b": [1, 2], "a": "x"}'], {"a": "x", "b": [1, 2]}),
        (["plain words"], {"result": "plain words"}),
        (["[1, 2]"], {"result": [1, 2]}),
        (["one", '{"n": 2}'], {"result": ["one", {"n": 2}]}),
    ],
)
def test_structured_content_that_the_text_gives_already_is_not_kept_twice(deliver, session, parts, structured):
    deliver(said(*parts, structuredContent=structured))
    assert whole(session) == "\n".join(parts)


@pytest.mark.parametrize(
    ("parts", "structured"),
    [([], {"a": 1}), (["one"], {"result": "two"}), (["one", "two"], {"result": ["one"]}), (["{"], {"a": 1})],
)
def test_structured_content_that_says_more_is_kept_below_the_text(deliver, session, parts, structured):
    deliver(said(*parts, structuredContent=structured))
    assert json.loads(whole(session).split("structuredContent:\n")[1]) == structured


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


def test_a_warning_that_has_no_room_comes_with_the_next_answer(bag, monkeypatch):
    session = bag.session("unsaid", budget=Budget(total=100_000, per_call=1_000), holds="whole")
    delivery = Delivery(session)
    session.record("system", sample("lines", 160_000))
    monkeypatch.setattr(Account, "warning", "[Budget Alert: " + "very low " * 200 + "]")
    assert "[Budget" not in "".join(texts(done(delivery, said(sample("lines", 9_000)))))
    assert "[Budget Alert" in "".join(texts(done(delivery, said("short"))))


def test_a_store_that_cannot_write_does_not_lose_what_a_tool_said(deliver, session, monkeypatch):
    def full(*arguments, **options):
        raise StoreFullError("the disk is full")

    monkeypatch.setattr(session, "prepare", full)
    answer = deliver(said("done", IMAGE))
    assert answer["content"][:2] == said("done", IMAGE)["content"]
    assert "not recorded, and cannot be paged: the disk is full" in texts(answer)[1]
    answer = deliver(said(sample("lines", 200_000), IMAGE, structuredContent={"a": 1}))
    assert sum(map(count_tokens, texts(answer))) <= 8_000
    assert count_tokens(texts(answer)[0]) > 6_000
    assert IMAGE in answer["content"]


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
