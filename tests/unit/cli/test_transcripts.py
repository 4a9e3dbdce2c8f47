"""Transcripts of every known format become entries by turn; other input gives one clear line."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from satchel.cli.transcripts import Transcript, parse_transcript
from satchel.errors import InputError
from tables import each_row

USAGE = {
    "input_tokens": 9,
    "cache_creation_input_tokens": 5_061,
    "cache_read_input_tokens": 12_834,
    "output_tokens": 8,
}


def line(kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": kind, "isSidechain": False, "userType": "external", "cwd": "/work", **fields}


def user(content: Any, **fields: Any) -> dict[str, Any]:
    return line("user", message={"role": "user", "content": content}, **fields)


def answer(message_id: str, *blocks: dict[str, Any], **fields: Any) -> dict[str, Any]:
    message = {"id": message_id, "type": "message", "role": "assistant", "content": list(blocks), "usage": USAGE}
    return line("assistant", message=message, **fields)


def text(content: str) -> dict[str, Any]:
    return {"type": "text", "text": content}


def call(call_id: str, name: str = "Bash", **given: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": name, "input": given}


def result(call_id: str, content: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call_id, "content": content}


def parsed(*lines: Any) -> Transcript:
    return parse_transcript(b"\n".join(json.dumps(each).encode() for each in lines) + b"\n", name="it.jsonl")


def rows(transcript: Transcript) -> list[tuple[int, str, str]]:
    return [(entry.turn, entry.role, entry.text) for entry in transcript.entries]


def refused(content: bytes) -> str:
    with pytest.raises(InputError) as caught:
        parse_transcript(content, name="it.jsonl")
    message = str(caught.value)
    assert "\n" not in message
    assert "it.jsonl" in message
    return message


def test_a_session_of_claude_code_becomes_turns():
    transcript = parsed(
        {"type": "file-history-snapshot", "messageId": "m", "snapshot": {}},
        user("list the files", uuid="u1"),
        answer("msg_1", {"type": "thinking", "thinking": "easy", "signature": "Ep"}, uuid="u2"),
        answer("msg_1", call("toolu_1", command="ls"), uuid="u3", timestamp="2026-01-02T19:18:34.422Z"),
        user([result("toolu_1", "a.py\nb.py")], uuid="u4", toolUseResult={"stdout": "a.py\nb.py" * 99}),
        answer("msg_2", text("Two files."), uuid="u5", timestamp="2026-01-02T19:18:38.617Z"),
        line("system", subtype="turn_duration", durationMs=4),
    )
    assert rows(transcript) == [
        (0, "user", "list the files"),
        (0, "assistant", "easy"),
        (0, "assistant", 'Bash {"command":"ls"}'),
        (1, "tool", "a.py\nb.py"),
        (1, "assistant", "Two files."),
    ]
    assert [entry.tool for entry in transcript.entries] == [None, None, "Bash", "Bash", None]
    assert transcript.entries[3].call_id == "toolu_1"
    assert transcript.turns == 2
    assert transcript.times == (None, datetime(2026, 1, 2, 19, 18, 38, 617_000, tzinfo=UTC))
    assert transcript.first_prompt == 9 + 5_061 + 12_834
    assert transcript.skipped == 2


def test_only_the_usage_of_the_first_request_tells_its_size():
    later = answer("m2", text("b"))
    later["message"]["usage"] = {"input_tokens": 99_999}
    unknown = answer("m0", text("a"))
    unknown["message"]["usage"] = {"input_tokens": 0, "cache_read_input_tokens": None}
    assert parsed(user("go"), answer("m1", text("a")), later).first_prompt == 17_904
    assert parsed(user("go"), unknown, later).first_prompt is None


def test_results_between_the_parts_of_an_answer_come_after_it():
    transcript = parsed(
        user("both"),
        answer("msg_1", call("a")),
        user([result("a", "first")]),
        answer("msg_1", call("b")),
        user([result("b", "second")]),
        answer("msg_2", text("done")),
    )
    assert [(turn, role) for turn, role, _ in rows(transcript)] == [
        (0, "user"),
        (0, "assistant"),
        (0, "assistant"),
        (1, "tool"),
        (1, "tool"),
        (1, "assistant"),
    ]
    assert [entry.call_id for entry in transcript.entries[1:5]] == ["a", "b", "a", "b"]


def test_parts_recorded_twice_or_before_they_were_complete_count_once():
    transcript = parsed(
        user("go", uuid="u1"),
        user("go", uuid="u1"),
        answer("msg_1", text("I wi"), uuid="u2"),
        answer("msg_1", text("I will look."), uuid="u3"),
        answer("msg_1", call("a", command="l"), uuid="u4"),
        answer("msg_1", call("a", command="ls"), uuid="u5"),
        answer("msg_2", text("ok"), text("ok then")),
    )
    assert [said for _, _, said in rows(transcript)] == [
        "go",
        "I will look.",
        'Bash {"command":"ls"}',
        "ok",
        "ok then",
    ]
    assert transcript.skipped == 1


def test_subagents_are_left_out_unless_the_file_is_one_of_theirs():
    lines = [
        user("main"),
        user("sub", isSidechain=True),
        answer("s", text("sub"), isSidechain=True),
        answer("m", text("main")),
    ]
    transcript = parsed(*lines)
    assert {said for _, _, said in rows(transcript)} == {"main"}
    assert transcript.sidechains == 2
    alone = parsed(lines[1], lines[2], {"type": "mode"})
    assert len(alone.entries) == 2
    assert (alone.sidechains, alone.skipped) == (0, 1)


def test_a_compaction_is_undone_where_what_it_sums_up_is_there():
    boundary = line("system", subtype="compact_boundary", compactMetadata={"preTokens": 9})
    summary = user("a summary", isCompactSummary=True, isVisibleInTranscriptOnly=True)
    end = answer("m2", text("end"))
    transcript = parsed(user("start"), answer("m1", text("middle")), boundary, summary, end)
    assert [said for _, _, said in rows(transcript)] == ["start", "middle", "end"]
    assert transcript.compactions == 1
    resumed = parsed(boundary, summary, end)
    assert [said for _, _, said in rows(resumed)] == ["a summary", "end"]
    assert resumed.compactions == 0


@pytest.mark.parametrize(
    ("attachment", "expected"),
    [
        ({"type": "queued_command", "prompt": "and now this"}, "and now this"),
        ({"type": "queued_command", "prompt": [text("in parts")]}, "in parts"),
        ({"type": "hook_additional_context", "content": ["told by a hook"]}, "told by a hook"),
        ({"type": "nested_memory", "path": "/p", "content": {"content": "notes"}}, "notes"),
        ({"type": "file", "content": {"type": "text", "file": {"content": "x = 1"}}}, "x = 1"),
        ({"type": "edited_text_file", "filename": "f", "snippet": "1 x"}, "1 x"),
        ({"type": "nested_memory", "content": {"path": "/p"}}, '{"path":"/p"}'),
    ],
)
def test_attachments_that_go_to_the_model_are_the_users(attachment: dict[str, Any], expected: str):
    transcript = parsed(user("go"), line("attachment", attachment=attachment), answer("m", text("ok")))
    assert rows(transcript)[1] == (0, "user", expected)


def test_lines_that_never_went_to_a_model_are_counted_and_skipped():
    transcript = parsed(
        {"type": "summary", "summary": "A title", "leafUuid": "x"},
        {"type": "queue-operation", "operation": "enqueue", "content": "x"},
        line("attachment", attachment={"type": "hook_success", "stdout": "x"}),
        line("attachment", attachment="broken"),
        line("assistant", message={"model": "<synthetic>", "role": "assistant", "content": [text("API Error")]}),
        17,
        user("go", isMeta=True),
        answer("m", text("ok")),
    )
    assert [said for _, _, said in rows(transcript)] == ["go", "ok"]
    assert transcript.skipped == 6


def test_images_are_counted_and_their_bytes_are_not_text():
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "A" * 9_000}}
    plain = {"type": "document", "source": {"type": "text", "data": "plain words"}}
    transcript = parsed(
        user([text("see"), picture, plain]),
        answer("m", call("a")),
        user([result("a", [picture, text("two"), picture])]),
        answer("n", text("seen")),
    )
    assert [entry.images for entry in transcript.entries] == [0, 1, 0, 0, 2, 0]
    assert [entry.text for entry in transcript.entries[:3]] == ["see", "", "plain words"]
    assert transcript.entries[4].text == "two"


def test_an_orphan_result_is_kept():
    transcript = parsed(user([result("nobody", "left over")]), answer("m", text("ok")))
    assert rows(transcript)[0] == (0, "tool", "left over")
    assert transcript.entries[0].tool is None


OPENAI = [
    {"role": "system", "content": "be brief"},
    {"role": "developer", "content": [{"type": "text", "text": "and kind"}]},
    {
        "role": "user",
        "content": [{"type": "text", "text": "see"}, {"type": "image_url", "image_url": {"url": "data:x"}}],
    },
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "ls", "arguments": '{"at":"."}'}}],
    },
    {"role": "tool", "tool_call_id": "c1", "content": "a.py"},
    {"role": "assistant", "content": "one file", "refusal": None},
]
OPENAI_ROWS = [
    (0, "system", "be brief"),
    (0, "system", "and kind"),
    (0, "user", "see"),
    (0, "user", ""),
    (0, "assistant", 'ls {"at":"."}'),
    (1, "tool", "a.py"),
    (1, "assistant", "one file"),
]


@each_row(
    "content",
    [
        json.dumps(OPENAI),
        json.dumps(OPENAI, indent=2),
        json.dumps({"model": "gpt", "messages": OPENAI}),
        json.dumps({"messages": OPENAI}, indent=1),
        "[\n" + ",\n".join(map(json.dumps, OPENAI)) + "\n]\n",
        "[\n" + json.dumps({"messages": OPENAI}) + "\n]\n",
        "\n".join(map(json.dumps, OPENAI)),
        "\r\n".join(map(json.dumps, OPENAI)) + "\r\n\r\n",
        "\ufeff" + json.dumps(OPENAI),
        "\n".join(json.dumps({"messages": OPENAI[:size]}) for size in (4, 6)),
    ],
)
def test_messages_of_openai_are_read_in_each_container(content: str):
    transcript = parse_transcript(content.encode())
    assert rows(transcript) == OPENAI_ROWS
    assert [entry.tool for entry in transcript.entries[4:6]] == ["ls", "ls"]
    assert transcript.entries[3].images == 1


def test_what_is_no_message_is_counted_and_skipped():
    assert parsed(*OPENAI, {"role": "narrator"}, {"event": 1}, 3).skipped == 3
    assert parsed({"usage": {}}, {"messages": [*OPENAI, None]}).skipped == 2


def test_calls_of_the_older_form_belong_to_the_result_after_them():
    said = [
        {"role": "user", "content": "twice"},
        {"role": "assistant", "content": None, "function_call": {"name": "ls", "arguments": "{}"}},
        {"role": "function", "name": "ls", "content": "one"},
        {"role": "assistant", "content": "", "function_call": {"name": "ls", "arguments": "{}"}},
        {"role": "function", "name": "ls", "content": "two"},
        {"role": "assistant", "content": "done"},
    ]
    ids = [entry.call_id for entry in parsed(said).entries]
    assert ids[1] == ids[2] != ids[3] == ids[4]
    assert None not in ids[1:5]


def test_messages_of_anthropic_are_read_with_what_stands_before_them():
    request = {
        "system": [text("be brief")],
        "tools": [{"name": "ls", "input_schema": {}}],
        "messages": [
            {"role": "user", "content": "look"},
            {"role": "assistant", "content": [text("looking"), call("t1", "ls"), call("t2", "ls")]},
            {"role": "user", "content": [result("t1", [text("a")]), result("t2", "b"), text("go on")]},
            {"role": "assistant", "content": [{"type": "redacted_thinking", "data": "x" * 99}, text("ok")]},
        ],
    }
    transcript = parsed(request)
    assert rows(transcript) == [
        (0, "system", "be brief"),
        (0, "system", '[{"name":"ls","input_schema":{}}]'),
        (0, "user", "look"),
        (0, "assistant", "looking"),
        (0, "assistant", "ls {}"),
        (0, "assistant", "ls {}"),
        (1, "tool", "a"),
        (1, "tool", "b"),
        (1, "user", "go on"),
        (1, "assistant", "ok"),
    ]


def test_what_a_tool_of_the_provider_found_is_part_of_the_answer():
    found = {
        "type": "web_search_tool_result",
        "tool_use_id": "s",
        "content": [{"type": "web_search_result", "url": "u"}],
    }
    search = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "q"}}
    said = [{"role": "user", "content": "q"}, {"role": "assistant", "content": [search, found, text("so")]}]
    transcript = parsed(said)
    assert [entry.role for entry in transcript.entries] == ["user", "assistant", "assistant", "assistant"]
    assert transcript.entries[1].call_id == transcript.entries[2].call_id == "s"
    assert '"url":"u"' in transcript.entries[2].text


def test_halves_of_surrogate_pairs_are_repaired():
    used = rb'{"type":"tool_use","id":"a","name":"\ud83d","input":{"\udc00":["\ud83d\ude00"]}}'
    content = rb'[{"role":"user","content":"\ud83d cut"},{"role":"assistant","content":[%s]}]' % used
    assert [entry.text for entry in parse_transcript(content).entries] == ["\ufffd cut", '\ufffd {"\ufffd":["😀"]}']


def test_a_line_of_20_megabytes_is_read():
    assert len(parsed(user("x" * 20_000_000), answer("m", text("ok"))).entries[0].text) == 20_000_000


GOOD = json.dumps(user("go")).encode() + b"\n"


def user_within(depth: int) -> bytes:
    """Results inside of results, which JSON can hold."""
    content = b'[{"type":"tool_result","content":' * depth + b'"x"' + b"}]" * depth
    return b'{"type":"user","message":{"content":%s}}' % content


@each_row(
    ("content", "expected"),
    [
        (b"", "is empty"),
        (b" \n\n ", "is empty"),
        (b"\xef\xbb\xbf", "is empty"),
        (b"\n\nhello world\n", "line 3 of"),
        (GOOD + b"{broken\n", "line 2 of it.jsonl is not JSON"),
        (b"{broken\n" + GOOD, "line 1 of it.jsonl is not JSON"),
        (b"[\n{},\n{]\n]", "line 3 of it.jsonl is not JSON"),
        (GOOD + GOOD[:-9], "line 2 of it.jsonl is not JSON"),
        (GOOD + b'{"a":"\xff"}', "line 2 of it.jsonl is not UTF-8"),
        (GOOD.decode().encode("utf-16"), "is not UTF-8"),
        (b"\x00" * 40, "is not JSON"),
        (b"[" * 100_000, "nested too deeply"),
        (GOOD + b'{"a":' * 100_000, "nested too deeply"),
        (GOOD + user_within(400), "nested too deeply"),
        (GOOD + b"9" * 5_000, "line 2 of it.jsonl cannot be read"),
        (b"[]", "not a transcript"),
        (b"{}", "not a transcript"),
        (b"42", "not a transcript"),
        (b'"text"', "not a transcript"),
        (b'{"messages": 5}', "not a transcript"),
        (b'{"messages": []}', "not a transcript"),
        (b'{"satchel":"export"}\n{"memory":{}}', "not a transcript"),
        (b'[{"role":"narrator","content":"x"}]', "not a transcript"),
        (b'[{"role":"assistant","content":""}]', "no messages"),
        (GOOD, "no answer of a model"),
        (b'{"messages":[{"role":"user"}]}\n{"messages":[{"role":"system"}]}', "contains 2 conversations"),
    ],
)
def test_what_is_no_transcript_is_one_line_that_says_why(content: bytes, expected: str):
    assert expected in refused(content)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "type",
                    "role",
                    "message",
                    "content",
                    "id",
                    "text",
                    "tool_calls",
                    "function",
                    "usage",
                    "attachment",
                ]
            ),
            inner
            | st.sampled_from(
                ["user", "assistant", "tool", "text", "tool_use", "tool_result", "image", "attachment", "file"]
            ),
            max_size=5,
        )
    ),
    max_leaves=20,
)


@given(st.lists(JSON, min_size=1, max_size=6))
def test_whatever_json_comes_in_is_read_or_refused(values: list[Any]):
    try:
        transcript = parsed(*values)
    except InputError:
        return
    assert transcript.turns > 0
    assert [entry.turn for entry in transcript.entries] == sorted(entry.turn for entry in transcript.entries)
