"""Tool results through a gateway with the official client: within budget, stored in full, matched to calls."""

import json
import re
import time

import jsonschema
import pytest
from gateway_client import config, content_of, gateway_client, texts, upstream, wait_until
from mcp.shared.exceptions import MCPError

import satchel
from gateway_upstream import RECORDS, sample
from satchel.text.tokens import count_tokens

PER_CALL = 8_000
LARGEST = 5_000_000
SHAPES = ("lines", "json", "log", "unbroken", "emoji")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("gateway")


@pytest.fixture(scope="module")
def gateway(folder):
    servers = config(folder, one=upstream("--name", "one"), two=upstream("--name", "two", "--only", "whoami"))
    options = ("--config", servers, "--session", "tests", "--total", "100000000", "--per-call", str(PER_CALL))
    with gateway_client(folder, *options) as client:
        yield client


def cursor_in(text):
    lines = [line for line in text.splitlines() if line.startswith("➡ The rest: cursor=")]
    return lines[-1].split("=", 1)[1] if lines else None


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
def test_no_answer_exceeds_its_allocation_and_the_original_is_kept(gateway, folder, shape):
    for size in (10, 3_000, 30_000, LARGEST):
        answer = gateway.call("bulk", shape=shape, size=size)
        assert sum(map(count_tokens, texts(answer))) <= PER_CALL
        assert (cursor_in(texts(answer)[-1]) is not None) == (count_tokens(sample(shape, size)) > PER_CALL - 50)
    with satchel.open(folder / "notes.db", create=False, embedder="none") as bag:
        session = bag.find_session("tests")
        assert session.expand(session.results(limit=1)[0].handle) == sample(shape, LARGEST)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_pages_joined_are_the_original(gateway, shape):
    original = sample(shape, 150_000)
    page = texts(gateway.call("bulk", shape=shape, size=150_000))[0]
    at = pages = 0
    while True:
        assert count_tokens(page) <= PER_CALL
        content = content_of(page, original, at)
        assert original.startswith(content, at)
        assert content
        at += len(content)
        pages += 1
        if (cursor := cursor_in(page)) is None:
            break
        page = texts(gateway.call("result_page", cursor=cursor))[0]
    assert at == len(original)
    assert pages > 2


def test_fifty_calls_at_once_get_their_own_answers(gateway):
    calls = [("together", {"key": "fifty", "number": 50, "text": f"answer {n}"}) for n in range(50)]
    assert [texts(answer)[0] for answer in gateway.calls(calls)] == [f"answer {n}" for n in range(50)]


def test_large_answers_at_once_stay_apart(gateway):
    sizes = [40_000 + 7_000 * n for n in range(8)]
    answers = gateway.calls([("bulk", {"shape": "lines", "size": size}) for size in sizes])
    handles = {texts(answer)[0].split("handle=")[1].split(".")[0].split()[0] for answer in answers}
    assert len(handles) == len(sizes)


def test_calls_at_once_are_one_turn_and_calls_in_a_row_are_several(gateway):
    def turn():
        return json.loads(texts(gateway.call("budget_status"))[0])["turn"]

    before = turn()
    gateway.calls([("together", {"key": "turn", "number": 5, "text": "x"}) for _ in range(5)])
    between = turn()
    for _ in range(5):
        gateway.call("echo", text="x")
    assert (between - before, turn() - between) == (2, 6)


def test_a_server_that_ends_in_mid_call_gives_errors_and_the_next_call_works(gateway, folder):
    mark = folder / "hangs"
    began = time.monotonic()
    hanging, crashing, other = gateway.calls(
        [("hang", {"touch": str(mark)}), ("crash", {"code": 7}), ("two__whoami", {})]
    )
    assert time.monotonic() - began < 5
    for answer in (hanging, crashing):
        assert answer.is_error
        assert texts(answer) == ["the server one ended (exit code 7) during this call; it is being restarted"]
    assert texts(other)[0].startswith("two ")
    assert texts(gateway.call("echo", text="again"))[0] == "again"
    wait_until(lambda: "satchel: the server one ended (exit code 7)\n" in gateway.errors)


def test_an_error_stays_an_error(gateway):
    assert gateway.call("fail").is_error
    large = gateway.call("fail", size=500_000)
    assert large.is_error
    assert count_tokens(texts(large)[0]) <= PER_CALL
    with pytest.raises(MCPError) as caught:
        gateway.call("refuse")
    assert (caught.value.error.code, caught.value.error.data) == (-32099, {"why": "told to"})


def test_a_refusal_of_any_length_does_not_flood_the_window(gateway):
    answer = gateway.call("refuse", size=1_000_000)
    assert answer.is_error
    assert count_tokens(texts(answer)[0]) <= PER_CALL


def test_pictures_links_and_metadata_pass_unchanged(gateway):
    small = gateway.call("parts")
    assert [part.type for part in small.content] == ["text", "image", "resource", "resource_link", "text"]
    assert small.meta == {"kept": True}
    large = gateway.call("parts", size=300_000)
    assert [part.type for part in large.content] == ["text", "image", "resource_link"]
    assert large.content[1] == small.content[1]


@pytest.mark.parametrize("apart", [False, True])
def test_structured_content_is_passed_where_it_fits_and_paged_as_text_where_not(gateway, apart):
    """With an output schema in the list, the client would refuse an answer without structured content."""
    assert all(tool.output_schema is None for tool in gateway.ask("list_tools").tools)
    small = gateway.call("records", number=3, apart=apart)
    jsonschema.validate(small.structured_content, RECORDS)
    large = gateway.call("records", number=20_000, apart=apart)
    assert large.structured_content is None
    (page,) = texts(large)
    assert count_tokens(page) <= PER_CALL
    assert not gateway.call("result_page", cursor=cursor_in(page)).is_error
    found = texts(gateway.call("result_find", handle=cursor_in(page), pattern='"record 1234"'))[0]
    assert "⚡ 1 of 1 matches." in found


def test_a_file_whose_text_comes_twice_is_one_result(gateway):
    (page,) = texts(gateway.call("twice", shape="json", size=300_000))
    records = len(json.loads(sample("json", 300_000)))
    assert re.search(rf"⚡ records 1–\d+ of {records:,}; the rest costs ", page)
    found = texts(gateway.call("result_find", handle=cursor_in(page), pattern='"record 77"'))[0]
    assert "⚡ 1 of 1 matches." in found


def test_an_argument_that_a_client_adds_is_dropped_where_the_server_refuses_it(gateway):
    answer = gateway.call("strict", text="hello", wait_for_previous=True)
    assert texts(answer)[0] == '{"text": "hello"}'
    assert texts(answer)[1].startswith("[ignored: wait_for_previous]\n")
    assert texts(gateway.call("strict", text="x", texts=1))[0] == '{"text": "x", "texts": 1}'
    assert texts(gateway.call("echo", text="x", wait_for_previous=True))[1].startswith("📏 ")


def test_later_pages_say_where_they_are(gateway):
    (page,) = texts(gateway.call("bulk", shape="log", size=100_000))
    lines = sample("log", 100_000).count("\n")
    last = 0
    while cursor := cursor_in(page):
        first, now = re.search(rf"⚡ lines ([\d,]+)–([\d,]+) of {lines:,}; the rest costs", page).groups()
        assert int(first.replace(",", "")) == last + 1
        last = int(now.replace(",", ""))
        (page,) = texts(gateway.call("result_page", cursor=cursor))
    assert re.search(rf"📏 ~[\d,]+ tokens; ~\d+k left; lines {last + 1:,}–{lines:,} of {lines:,}, the end$", page)


@pytest.mark.parametrize(
    ("how", "complaint"),
    [
        ("utf8", "the server one answered with a line that is not UTF-8: invalid start byte 0xff"),
        ("last", "the server one answered with a line that is not UTF-8: invalid start byte 0xff"),
        ("json", "the server one answered with a line that is not JSON: "),
        ("shape", "the server of garbled did not answer with a tool result"),
    ],
)
def test_what_cannot_be_read_is_an_error_of_its_call_and_the_server_goes_on(gateway, how, complaint):
    before = texts(gateway.call("one__whoami"))[0]
    answer = gateway.call("garbled", how=how)
    assert answer.is_error
    assert texts(answer)[0].startswith(complaint)
    assert texts(gateway.call("one__whoami"))[0] == before


def test_half_a_character_and_noise_between_messages_are_survived(gateway):
    assert texts(gateway.call("garbled", how="half"))[0] == "a\ufffdb"
    assert texts(gateway.call("garbled", how="noise"))[0] == "after noise"
    wait_until(lambda: "the server one sent a line that is not JSON" in gateway.errors)


def test_a_result_is_searched_and_bad_cursors_and_patterns_are_one_line(gateway):
    page = texts(gateway.call("bulk", shape="log", size=200_000))[0]
    handle = page.rsplit("handle=", 1)[1].split(".")[0].split()[0]
    found = gateway.call("result_find", handle=handle, pattern="ERROR step 150 ")
    assert "ERROR step 150 done" in texts(found)[0]
    cursor = cursor_in(page)
    for tool, arguments in (
        ("result_page", {"cursor": cursor[:-1] + ("a" if cursor[-1] != "a" else "b")}),
        ("result_page", {"cursor": "nonsense"}),
        ("result_page", {}),
        ("result_find", {"handle": handle, "pattern": "("}),
        ("result_find", {"handle": "none", "pattern": "x"}),
    ):
        answer = gateway.call(tool, **arguments)
        assert answer.is_error, (tool, arguments)
        assert "\n" not in texts(answer)[0]


def test_a_tool_that_nobody_has_is_an_error_that_names_it(gateway):
    assert "there is no tool 'nothing'" in texts(gateway.call("nothing"))[0]
