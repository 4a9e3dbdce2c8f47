"""The digest of JSON."""

import json

import pytest

from satchel.session.digests.digest import digest

RECORDS = [{"id": f"u{n}", "name": f"Person {n}", "roles": ["a", "b"], "note": "x" * 30} for n in range(400)]


def test_an_array_of_objects_becomes_its_length_keys_and_some_ids():
    assert digest(json.dumps(RECORDS)).split("\n") == [
        "JSON array of 400, 40.2 KB",
        "each with id, name, roles, note",
        "id u0, u1, u2, u3, u4, u5, +394 more",
    ]


def test_an_object_becomes_its_keys_counts_and_scalars():
    text = json.dumps(
        {"total": 400, "next": None, "done": False, "users": RECORDS, "links": {"self": "/u", "up": "/"}}
    )
    assert digest(text, arguments={"path": "users.json"}).split("\n") == [
        "JSON users.json object with 5 keys, 40.3 KB",
        "Keys: users [400], links {2}",
        "total=400, next=null, done=false",
        "users: each with id, name, roles, note",
        "users: id u0, u1, u2, u3, u4, u5, +394 more",
    ]


def test_numbers_are_not_taken_for_truth():
    assert "id 0, 1, 2" in digest(json.dumps([{"id": n, "note": "x" * 90} for n in range(9)]))


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        ({"error": "quota of kiln-7 exceeded"}, "! error: quota of kiln-7 exceeded"),
        ({"error": {"code": "Q1", "message": "too much"}}, "! error: {code: Q1, message: too much}"),
        ({"errors": [{"code": "Q1", "message": "too much"}]}, "! errors: [{code: Q1, message: too much}]"),
        ({"result": {"error": "quota exceeded"}}, "! result.error: quota exceeded"),
        ({"message": "nothing to do"}, "\nmessage: nothing to do"),
    ],
)
def test_what_it_says_of_errors_is_kept_first(value, kept):
    text = json.dumps({"users": RECORDS, "text": "prose and more of it " * 40} | value)
    assert kept in digest(text)
    assert kept in digest(text, most=110)


def test_no_error_is_no_error():
    found = digest(json.dumps({"error": None, "errors": [], "users": RECORDS}))
    assert "!" not in found


def test_long_values_are_shortened_and_prose_goes_first():
    value = {"id": "req_0199", "prose": "word and word again " * 20, "blob": "QUJD" * 200, "count": 7}
    found = digest(json.dumps(value), most=90)
    assert "id=req_0199, blob=QUJDQUJDQUJDQUJD…, count=7" in found
    assert "prose" not in found
    assert "prose=word and word" in digest(json.dumps(value))


def test_a_long_text_is_read_at_its_beginning_and_end_and_says_so():
    text = json.dumps({"items": RECORDS * 30, "total": 12_000, "cursor": "abc"})
    lines = digest(text).split("\n")
    assert lines[0].startswith("JSON object with at least 1 key, 1,")
    assert lines[1].startswith("Keys: items [≥")
    assert "total=12000, cursor=abc" in lines
    assert "items: id u0, u1, u2, u3, u4, u5" in lines


def test_the_length_of_a_long_array_is_an_estimate():
    first = digest(json.dumps(RECORDS * 30)).split("\n")[0]
    assert first.startswith("JSON array of ~1")
    assert 11_000 <= int(first.split("~")[1].split(", ")[0].replace(",", "")) <= 13_000


def test_an_error_deep_in_a_long_text_is_kept():
    records = [dict(one) for one in RECORDS * 30]
    records[7_000]["error"] = "disk is full on node-7"
    assert '"error": "disk is full on node-7"' in digest(json.dumps(records))


def test_truncated_json_shows_what_is_complete():
    text = json.dumps({"items": RECORDS[:20]})[:-40]
    found = digest(text)
    assert found.startswith("JSON object with at least 1 key")
    assert "items: id u0, u1" in found


def test_lines_of_json_are_counted():
    text = "".join(json.dumps({"id": n, "kind": "a"}) + "\n" for n in range(300))
    assert digest(text).startswith("JSON lines: 300 values, ")
    assert "each with id, kind" in digest(text)


@pytest.mark.parametrize(
    "text",
    [
        "[" * 200_000,
        '{"a":' * 100_000,
        "[" * 3_000 + "]" * 3_000,
        '{"a": {' + '"b": [' * 900,
        '{"\ud800": "\ud800' * 99,
    ],
)
def test_what_is_nested_too_deep_or_broken_is_said_to_be_unreadable(text):
    found = digest(text, shape="json")
    assert found.startswith("JSON ")
    assert len(found) <= 500


def test_names_and_numbers_of_any_length_do_no_harm():
    found = digest(
        json.dumps({"a\nb" * 500: 1, "n": 10**400, "f": 1e300, "neg": -(2**70), "text": "x y " * 200}), shape="json"
    )
    assert found.startswith("JSON object with 5 keys")
    assert "a b" in found


def test_of_two_equal_keys_the_last_counts():
    assert "a=2" in digest('{"a":1,"a":2,"b":"' + "x y " * 200 + '"}')
