"""The entry in JSON files as clients and people write them."""

import json

import pytest

from satchel.cli.clients.entry import Fields
from satchel.cli.clients.json_file import whole_file, with_entry, without_entry
from satchel.errors import InputError
from tables import each_row

ENTRY = Fields("satchel", {"command": "/opt/satchel", "args": ["mcp"]})


def installed(text: str, *, entry: Fields = ENTRY, key: str = "mcpServers") -> str:
    return with_entry(text, entry, key=key).text


def uninstalled(text: str) -> str:
    return without_entry(text, "satchel", key="mcpServers").text


def test_a_new_member_follows_the_indentation_and_the_line_ends_of_the_file():
    before = (
        '{\r\n\t"theme": "dark",\r\n\t"mcpServers": {\r\n'
        '\t\t"a": {\r\n\t\t\t"command": "x"\r\n\t\t}\r\n\t}\r\n}\r\n'
    )
    assert installed(before) == (
        '{\r\n\t"theme": "dark",\r\n\t"mcpServers": {\r\n\t\t"a": {\r\n\t\t\t"command": "x"\r\n\t\t},\r\n'
        '\t\t"satchel": {\r\n\t\t\t"command": "/opt/satchel",\r\n\t\t\t"args": ["mcp"]\r\n\t\t}\r\n\t}\r\n}\r\n'
    )


def test_a_minified_file_stays_minified():
    assert installed('{"numStartups":3,"mcpServers":{"a":{"command":"x"}}}') == (
        '{"numStartups":3,"mcpServers":{"a":{"command":"x"},"satchel":{"command":"/opt/satchel","args":["mcp"]}}}'
    )
    assert installed('{"a": 1, "mcpServers": {}}') == (
        '{"a": 1, "mcpServers": {"satchel": {"command": "/opt/satchel", "args": ["mcp"]}}}'
    )


def test_a_file_without_servers_gets_them_at_its_end():
    assert installed('{\n    "theme": "dark"\n}\n') == (
        '{\n    "theme": "dark",\n    "mcpServers": {\n        "satchel": {\n'
        '            "command": "/opt/satchel",\n            "args": ["mcp"]\n        }\n    }\n}\n'
    )


@pytest.mark.parametrize("text", ["", " \r\n\t", "{}", "{ }", "{\n}"])
def test_an_empty_file_is_an_empty_object(text: str):
    assert json.loads(installed(text)) == json.loads(whole_file(ENTRY, key="mcpServers"))
    assert without_entry(text, "satchel", key="mcpServers") == (text, "absent")


def test_comments_keep_their_members_and_trailing_commas_stay_a_habit():
    before = (
        '{\n  // mine\n  "mcpServers": {\n    "a": {"command": "x"}, // the first\n'
        '    /* off for now: "b": {} */\n  },\n}\n'
    )
    assert installed(before) == (
        '{\n  // mine\n  "mcpServers": {\n    "a": {"command": "x"}, // the first\n'
        '    "satchel": {\n      "command": "/opt/satchel",\n      "args": ["mcp"]\n    },\n'
        '    /* off for now: "b": {} */\n  },\n}\n'
    )
    assert uninstalled(installed(before)) == before


def test_a_comment_to_the_end_of_the_line_swallows_nothing():
    assert uninstalled('{"mcpServers": {"a": {}, // note\n"satchel": {}}}') == '{"mcpServers": {"a": {} // note\n}}'
    assert uninstalled('{"mcpServers": { // note\n"satchel": {}, "a": {}}}') == (
        '{"mcpServers": { // note\n "a": {}}}'
    )
    assert uninstalled('{"mcpServers": {"a": {} // x\n, "satchel": {}}}') == '{"mcpServers": {"a": {} // x\n}}'
    added = installed('{"mcpServers": {"a": {} // note\n}}')
    assert added == (
        '{"mcpServers": {"a": {}, // note\n"satchel": {"command": "/opt/satchel", "args": ["mcp"]}\n}}'
    )


def test_the_first_the_middle_and_the_last_entry_go_with_their_line():
    def listing(*names: str) -> str:
        return '{\n  "mcpServers": {\n' + ",\n".join(f'    "{name}": {{}}' for name in names) + "\n  }\n}\n"

    assert uninstalled(listing("satchel", "b")) == listing("b")
    assert uninstalled(listing("a", "satchel", "b")) == listing("a", "b")
    assert uninstalled(listing("a", "satchel")) == listing("a")
    assert uninstalled(listing("satchel")) == '{\n  "mcpServers": {}\n}\n'


def test_an_update_sets_command_and_arguments_and_keeps_the_rest_of_the_entry():
    before = (
        '{"mcpServers": {"satchel": {"env": {"A": "1"}, "command": "/old", /* mine */ "args": ["mcp", "--x"], '
        '"alwaysAllow": ["recall"]}}}'
    )
    edited = with_entry(before, ENTRY._replace(defaults={"type": "stdio"}), key="mcpServers")
    assert edited == (
        before.replace("/old", "/opt/satchel").replace('["mcp", "--x"]', '["mcp"]'),
        "updated",
    )


def test_an_entry_that_says_the_same_in_other_words_is_left_alone():
    same = '{"mcpServers": {"satchel": {"args": [ "m\\u0063p", ], "command": "\\/opt\\/satchel", "timeout": 5}}}'
    assert with_entry(same, ENTRY._replace(defaults={"type": "stdio"}), key="mcpServers") == (same, "unchanged")


def test_only_the_key_at_the_top_counts():
    before = '{"projects": {"/p": {"mcpServers": {"satchel": {"command": "q"}}}}, "mcpServers": {}}'
    assert json.loads(installed(before)) == {
        "projects": {"/p": {"mcpServers": {"satchel": {"command": "q"}}}},
        "mcpServers": {"satchel": {"command": "/opt/satchel", "args": ["mcp"]}},
    }
    assert uninstalled(installed(before)) == before


def test_a_key_written_with_escapes_is_the_same_key():
    before = '{"mcp\\u0053ervers": {"satche\\u006c": {"command": "q"}}}'
    assert uninstalled(before) == '{"mcp\\u0053ervers": {}}'


def test_letters_beyond_ascii_are_written_as_they_are():
    entry = Fields("satchel", {"command": "/home/zoë/satchel", "args": ["mcp", "--project", 'über "x"\\']})
    text = installed("{}", entry=entry)
    assert "/home/zoë/satchel" in text
    assert json.loads(text)["mcpServers"]["satchel"]["args"][-1] == 'über "x"\\'


@each_row(
    ("text", "reason"),
    [
        (
            '{"mcpServers": {}, "mcpServers": {}}',
            '"mcpServers" appears twice, at line 1, column 2 and at line 1, col',
        ),
        ('{"mcpServers": {"satchel": {}, "satchel": {}}}', '"satchel" appears twice'),
        ('{"mcpServers": {"satchel": {"args": [], "args": []}}}', '"args" appears twice'),
        ('{"mcpServers": []}', 'line 1, column 16: "mcpServers" must be an object'),
        ('{"mcpServers": null}', '"mcpServers" must be an object'),
        ('{"mcpServers": {"satchel": "npx"}}', '"satchel" must be an object'),
        ('{"mcpServers": {"satchel": {"url": "https://x"}}}', "a remote server"),
        ('{"mcpServers": {"satchel": {"type": "http", "command": "x"}}}', "a remote server"),
        ('{"mcpServers": {"satchel": {"command": "x"}}', "the file ends"),
    ],
)
def test_what_cannot_be_edited_is_refused(text: str, reason: str):
    with pytest.raises(InputError) as caught:
        installed(text)
    assert reason in str(caught.value)


def test_a_twin_elsewhere_is_none_of_our_business():
    twins = '{"a": 1, "a": 2, "mcpServers": {"b": {"x": 1, "x": 2}}}'
    assert uninstalled(installed(twins)) == twins
