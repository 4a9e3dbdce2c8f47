"""Without max_tokens an answer stays within the server's limit, and its cursors return the rest exactly once."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tool_contexts import ask, bodies, empty_context, varied_context

import satchel
from read_back import footers, told_of
from satchel.errors import InputError
from satchel.model.invisible import visible
from satchel.server.mcp.catalog import TOOLS
from satchel.server.mcp.tool_context import MOST_TOKENS, ToolContext

pytestmark = pytest.mark.usefixtures("all_matches")

PAGED: list[tuple[str, dict[str, Any]]] = [
    ("mem_search", {"query": "key rotation", "limit": 60, "detail_level": "full"}),
    ("mem_search", {"query": "token budget", "limit": 200, "detail_level": "summary"}),
    ("mem_context", {"detail_level": "full", "limit": 40}),
    ("mem_context", {"query": "login form", "limit": 40}),
    ("mem_timeline", {"id": "019b0019-0000", "before": 8, "after": 8, "detail_level": "full"}),
    ("mem_get", {"id": [f"019b00{place:02x}-0001" for place in range(40)]}),
    ("mem_stats", {}),
    ("sdd_get_context", {"detail_level": "full"}),
    ("sdd_get_context", {"detail_level": "standard"}),
    ("sdd_context_check", {"change_description": "key rotation at midnight", "detail_level": "full"}),
]
LONG_TEXTS = {
    "words": "The job asks each service for its key.\n\n  It writes what it finds into the log.   \n" * 3_750,
    "one line of words": "why was this token refused " * 6_000,
    "Japanese": "記憶は予算の中に収まる" * 5_000,
    "emoji": "👩\N{ZERO WIDTH JOINER}👩\N{ZERO WIDTH JOINER}👧🏳️\N{ZERO WIDTH JOINER}🌈👍🏽🎉" * 4_000,
    "no spaces": "dGhpcyBpcyBiYXNlNjQ" * 5_000,
    "look-alikes": "📏 ~5 tokens\n019b0019-0000 (continued)\n    x …\n➡ The rest: cursor=0123456789\n\n\n" * 1_500,
}
CHARACTERS = "ab .,記憶🎉👩\N{ZERO WIDTH JOINER}👧\N{COMBINING ACUTE ACCENT}\t\n\n"


@pytest.fixture(scope="module")
def varied(tmp_path_factory) -> Iterator[tuple[ToolContext, list[str]]]:
    with varied_context(tmp_path_factory.mktemp("project")) as made:
        yield made


@pytest.fixture
def small(varied, monkeypatch) -> ToolContext:
    """The varied context, with pages of at most 400 tokens."""
    context: ToolContext = varied[0]
    monkeypatch.setattr(context, "most_tokens", 400)
    return context


def as_listed(text: str) -> str:
    """A stored text as lines can tell it: without blanks at their ends, and only with visible characters."""
    return "\n".join(line.rstrip() for line in visible(text).split("\n"))


@pytest.mark.parametrize(("tool", "arguments"), PAGED)
def test_every_page_keeps_to_the_servers_limit_and_says_how_to_go_on(small, tool: str, arguments: dict[str, Any]):
    answer, pages = ask(small, tool, **arguments), 0
    while True:
        pages += 1
        told = footers(answer.text)
        assert small.count(answer.text) == told.tokens <= 400
        assert answer.data["included"] > 0
        assert (told.cursor is None) == (told.budget is None)
        if told.cursor is None:
            break
        answer = ask(small, tool, cursor=told.cursor)
    assert pages > 1 or tool == "mem_stats"


def by_whole_id(context: ToolContext, pages: list[str]) -> dict[str, str]:
    return {context.bag.get(name).id: text for name, text in told_of(pages).items()}


def test_by_default_the_limit_is_twenty_thousand_tokens(varied):
    context, ids = varied
    assert context.most_tokens == MOST_TOKENS == 20_000
    first = ask(context, "mem_get", id=ids)
    assert 19_000 < context.count(first.text) <= 20_000
    pages = bodies(context, "mem_get", id=ids)
    assert by_whole_id(context, pages) == {each: as_listed(context.bag.get(each).text) for each in ids}


def test_the_pages_of_a_search_show_every_memory_once_and_in_full(small):
    whole = bodies(small, "mem_search", query="key rotation", limit=60, detail_level="full", max_tokens=10**7)
    pages = bodies(small, "mem_search", query="key rotation", limit=60, detail_level="full")
    assert len(whole) == 1
    assert told_of(pages) == told_of(whole)
    assert list(told_of(pages)) == list(told_of(whole))
    assert len(told_of(pages)) == 60


@pytest.mark.parametrize(
    ("tool", "arguments", "number"),
    [
        ("mem_timeline", {"id": "019b0019-0000", "before": 4, "after": 4, "detail_level": "full"}, 9),
        ("mem_context", {"limit": 30, "detail_level": "full"}, 45),
    ],
)
def test_pages_by_rank_show_every_memory_once_and_in_full(small, tool: str, arguments: dict[str, Any], number: int):
    whole = told_of(bodies(small, tool, **arguments, max_tokens=10**7))
    assert told_of(bodies(small, tool, **arguments)) == whole
    assert len(whole) == number


def test_a_block_that_had_no_room_for_all_brings_the_rest_in_full_by_cursor(small):
    asked = {"query": "key rotation", "format": "raw", "limit": 10}
    block, *pages = bodies(small, "mem_context", **asked)
    (whole,) = bodies(small, "mem_context", **asked, max_tokens=10**7)
    wanted = {each["id"]: each for each in json.loads(whole)}
    complete = {each["id"] for each in json.loads(block) if each == wanted[each["id"]]}
    assert complete
    assert complete < wanted.keys()
    rest = {small.bag.get(name).id: text for name, text in told_of(pages).items()}
    assert rest == {name: as_listed(small.bag.get(name).text) for name in wanted.keys() - complete}


def test_a_memory_that_a_block_shows_in_part_comes_whole_by_cursor(tmp_path):
    with empty_context(tmp_path, most_tokens=300) as context:
        saved = context.bag.add("The harbour freezes in May. " * 100)
        block, *pages = bodies(context, "mem_context", query="When does the harbour freeze?")
        assert "The harbour freezes in May. …" in block
        assert list(told_of(pages).values()) == [saved.text.strip()]


@pytest.mark.parametrize("sort", LONG_TEXTS)
def test_a_long_memory_comes_in_pages_that_give_back_its_very_text(tmp_path, sort: str):
    with empty_context(tmp_path) as context:
        saved = context.bag.add(LONG_TEXTS[sort], title="Long")
        other = context.bag.add("Short.")
        pages = bodies(context, "mem_get", id=[saved.id, other.id])
        assert len(pages) >= 2
        assert by_whole_id(context, pages) == {saved.id: as_listed(saved.text), other.id: "Short."}


@settings(max_examples=60)
@given(st.text(st.sampled_from(CHARACTERS), min_size=1, max_size=700).filter(str.strip), st.integers(150, 300))
def test_any_text_comes_back_from_pages_of_any_size(shared, text, most_tokens):
    shared.most_tokens = most_tokens
    saved = shared.bag.add(text)
    assert by_whole_id(shared, bodies(shared, "mem_get", id=[saved.id])) == {saved.id: as_listed(saved.text)}


@pytest.fixture(scope="module")
def shared(tmp_path_factory) -> Iterator[ToolContext]:
    with empty_context(tmp_path_factory.mktemp("shared")) as context:
        yield context


def test_many_relations_are_never_cut_within_a_line(tmp_path):
    with empty_context(tmp_path, most_tokens=200) as context:
        centre = context.bag.add("The centre of it all. " * 40)
        others = [context.bag.add(f"Another one, number {number}.") for number in range(30)]
        for each in others:
            context.bag.relate(centre.id, each.id, "part_of")
        pages = bodies(context, "mem_get", id=[centre.id])
        told = [line.removesuffix(" …") for page in pages for line in page.split("\n") if line.startswith("→")]
        assert told == [f"→ part_of {name}" for name in context.bag.short_ids(others)]
        assert by_whole_id(context, pages) == {centre.id: as_listed(centre.text)}


def test_the_same_call_gives_the_same_bytes_and_the_same_cursor(small):
    for tool, arguments in PAGED:
        first, second = ask(small, tool, **arguments), ask(small, tool, **arguments)
        assert first == second
        if cursor := first.data.get("cursor"):
            # An answer may be lost on its way: the cursor can be used again.
            assert ask(small, tool, cursor=cursor) == ask(small, tool, cursor=cursor)


def test_a_budget_goes_with_a_cursor(small):
    cursor = ask(small, "mem_search", query="key rotation", limit=60).data["cursor"]
    page = ask(small, "mem_search", cursor=cursor, max_tokens=150)
    assert footers(page.text).tokens <= 150
    assert page.data["cursor"] != cursor
    tiny = ask(small, "mem_search", cursor=cursor, max_tokens=40)
    assert 40 < tiny.data["smallest_budget"] <= 150


def test_with_a_budget_of_ones_own_there_is_no_cursor(small):
    answer = ask(small, "mem_search", query="key rotation", limit=60, max_tokens=400)
    assert footers(answer.text).budget == 400
    assert "cursor" not in answer.text


@pytest.mark.parametrize("tool", sorted({tool for tool, _ in PAGED} - {"sdd_context_check"}))
def test_a_cursor_that_is_unknown_or_another_tools_is_refused_with_advice(small, tool: str):
    foreign = ask(small, "sdd_context_check", change_description="key rotation").data["cursor"]
    for cursor in ("nonsense", "0" * 5_000, foreign):
        with pytest.raises(InputError, match=f"is not known to {tool} any more; ask again without it") as caught:
            ask(small, tool, cursor=cursor)
        assert len(str(caught.value)) < 120


@pytest.mark.parametrize("name", ["claude", "chars/4", "cl100k_base"])
def test_pages_lose_nothing_under_another_counter(tmp_path, name: str):
    with satchel.open(":memory:", counter=name) as bag:
        context = ToolContext(bag, None, most_tokens=300)
        texts = ["記憶は予算の中に収まる。" * 60, "Words and words. " * 80, "🎉" * 200, "𒀀𒀁𒀂" * 60]
        saved = [bag.add(text) for text in texts]
        pages = bodies(context, "mem_get", id=[each.id for each in saved])
        assert by_whole_id(context, pages) == {each.id: as_listed(each.text) for each in saved}


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [*PAGED, ("context_pack", {"query": "key rotation"}), ("mem_list", {"detail_level": "full"})],
)
def test_a_shorter_level_is_advised_only_where_there_is_one(
    small: ToolContext, tool: str, arguments: dict[str, Any]
):
    advice = ask(small, tool, **arguments, max_tokens=120).text.splitlines()[-2]
    assert "Increase max_tokens" in advice
    has_shorter = "detail_level" in TOOLS[tool].parameters and arguments.get("detail_level") != "summary"
    assert ("detail_level=summary" in advice) is has_shorter
