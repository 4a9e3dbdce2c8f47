"""For any JSON of a client, an install changes only the entry."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from written_json import KEY, documents, parsed, servers_of, written

from satchel.cli.clients.entry import Fields
from satchel.cli.clients.json_file import read_document, read_object, with_entry, without_entry

ENTRY = Fields("satchel", {"command": "/opt/satchel", "args": ["mcp", "--project", "a // b"]})
FIELDS = {"command": "/opt/satchel", "args": ["mcp", "--project", "a // b"]}


def installed(text: str) -> str:
    edited = with_entry(text, ENTRY, key=KEY)
    assert edited.what == "added"
    assert with_entry(edited.text, ENTRY, key=KEY) == (edited.text, "unchanged")
    return edited.text


def uninstalled(text: str) -> str:
    edited = without_entry(text, "satchel", key=KEY)
    assert edited.what == "removed"
    assert without_entry(edited.text, "satchel", key=KEY) == (edited.text, "absent")
    return edited.text


def remarks(text: str) -> int:
    """How many comments a generated text has; its strings hold none that look like them."""
    return text.count("/* c, } */") + text.count("// c") + text.count("/*\n*/")


@settings(max_examples=40)
@given(documents())
def test_an_install_adds_the_entry_alone_and_an_uninstall_gives_back_the_bytes(made: tuple[dict[str, Any], str]):
    document, text = made
    assert parsed(text) == document

    after = installed(text)
    assert parsed(after) == {**document, KEY: {**servers_of(document), "satchel": FIELDS}}
    assert [key for key in parsed(after) if key != KEY] == [key for key in document if key != KEY]

    back = uninstalled(after)
    if KEY in document:
        assert back == text
    else:
        assert parsed(back) == {**document, KEY: {}}
        assert uninstalled(installed(back)) == back


@settings(max_examples=40)
@given(documents(), st.data())
def test_any_entry_is_taken_out_alone_and_comments_stay(made: tuple[dict[str, Any], str], data: st.DataObject):
    document, _ = made
    servers = {**servers_of(document), "satchel": FIELDS}
    order = data.draw(st.permutations(list(servers)))
    document[KEY] = {name: servers[name] for name in order}
    text = data.draw(written(document))
    name = data.draw(st.sampled_from(order))

    after = without_entry(text, name, key=KEY).text
    assert parsed(after) == {**document, KEY: {key: value for key, value in servers.items() if key != name}}
    place = next(member.value for member in read_document(text).members if member.key == KEY)
    gone = next(member for member in read_object(text, place).members if member.key == name)
    assert remarks(after) == remarks(text) - remarks(text[gone.start : gone.end])


@settings(max_examples=40)
@given(documents(), st.data())
def test_an_update_sets_the_command_line_and_keeps_what_the_user_added(
    made: tuple[dict[str, Any], str], data: st.DataObject
):
    document, _ = made
    optional = {
        "env": st.just({"A": "1"}),
        "command": st.just("old"),
        "args": st.sampled_from([["x"], [], None, 3, [["mcp"]], "mcp"]),
        "timeout": st.just(9),
    }
    fields = data.draw(st.fixed_dictionaries({}, optional=optional))
    document[KEY] = {**servers_of(document), "satchel": fields}
    edited = with_entry(data.draw(written(document)), ENTRY, key=KEY)
    assert edited.what == "updated"
    assert parsed(edited.text) == {**document, KEY: {**document[KEY], "satchel": {**fields, **FIELDS}}}
    assert with_entry(edited.text, ENTRY, key=KEY).what == "unchanged"
