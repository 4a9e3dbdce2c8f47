"""The entry in Codex's TOML: every other line stays, comments included."""

import tomllib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from satchel.cli.clients.entry import Fields
from satchel.cli.clients.toml_file import whole_file, with_entry, without_entry
from satchel.errors import InputError
from tables import each_row

KEY = "mcp_servers"
ENTRY = Fields("satchel", {"command": "/opt/satchel", "args": ["mcp", "--project", 'a "b" é\x7f']})
TABLE = whole_file(ENTRY, key=KEY)

REAL = '''\
# Codex, as I like it
model = "gpt-5"   # the default
approval_policy = 'on-request'
notify = [
  "notify-send", # ] not the end
  "Codex",
]

[mcp_servers.context7]
command = "npx"
args = ["-y", "@upstash/context7-mcp"]
env = { TOKEN = "x", A.b = 1 }

# -------- profiles --------
[profiles.o3]
model = "o3"
developer_instructions = """
[mcp_servers.satchel]
is only text here \\"""
"""

[mcp_servers."other one"]
url = "https://example.test/mcp"

[projects."/home/u/a.b]#"]
trust_level = "trusted"
# the end
'''


def installed(text: str) -> str:
    edited = with_entry(text, ENTRY, key=KEY)
    assert edited.what == "added"
    return edited.text


def uninstalled(text: str) -> str:
    edited = without_entry(text, "satchel", key=KEY)
    assert edited.what == "removed"
    return edited.text


def test_the_table_is_valid_whatever_is_in_the_arguments():
    assert tomllib.loads(TABLE) == {KEY: {"satchel": ENTRY.values}}


def test_a_table_is_put_at_the_end_and_everything_before_it_stays():
    assert installed(REAL) == REAL + "\n" + TABLE
    assert with_entry(installed(REAL), ENTRY, key=KEY).what == "unchanged"
    assert installed("") == TABLE


pieces = st.sampled_from(
    [
        "\n",
        "# note\n",
        "[mcp_servers.a]\n",
        '[mcp_servers.b]\ncommand = "b"\n',
        "[tui]\n",
        "[[rules]]\nx = 1\n",
        '[projects."p [q] = r"]\n',
        '[text]\nt = """\n[mcp_servers.satchel]\n"""\n',
        "[list]\nl = [\n  1, # ]\n\n  2,\n]\n",
        "[quotes]\nq = '''\n\"\"\" '''\n",
    ]
)


@settings(max_examples=60)
@given(st.lists(pieces, unique=True), st.sampled_from(["\n", "\r\n"]), st.booleans())
def test_an_uninstall_gives_back_the_bytes_that_were_there(parts: list[str], newline: str, ends: bool):
    text = "".join(parts).replace("\n", newline)
    text = text if ends else text.removesuffix(newline)
    before = tomllib.loads(text)
    after = installed(text)
    servers = {**before.get(KEY, {}), "satchel": ENTRY.values}
    assert tomllib.loads(after) == {**before, KEY: servers}
    assert uninstalled(after) == text


def test_tables_go_wherever_they_stand_and_comments_around_them_stay():
    before = (
        'model = "x"\n\n# about memory\n[mcp_servers.satchel]\n# in it\ncommand = "q"\n'
        'args = [\n  "mcp", # the server\n]\n'
        '\n# my other server\n[mcp_servers.other]\ncommand = "y"\n\n[mcp_servers.satchel.env]\nA = "1"\n'
        "# about tools\n[mcp_servers.satchel.tools]\n\n[tui]\n"
    )
    assert uninstalled(before) == (
        'model = "x"\n\n# about memory\n\n# my other server\n[mcp_servers.other]\ncommand = "y"\n'
        "\n# about tools\n\n[tui]\n"
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('[mcp_servers]\nsatchel = { command = "q" }\nb.command = "b"\n', '[mcp_servers]\nb.command = "b"\n'),
        ('mcp_servers.satchel.command = "q"\na = 1\n', "a = 1\n"),
        ('["mcp_servers" . \'satchel\']\ncommand = "q"\n[z]\n', "[z]\n"),
    ],
)
def test_an_entry_goes_however_it_is_written(before: str, after: str):
    assert uninstalled(before) == after


def test_an_update_sets_command_and_arguments_and_keeps_the_rest_of_the_table():
    before = (
        '[mcp_servers.satchel]\r\nstartup_timeout_sec = 20\r\ncommand = "/old" # mine\r\n'
        'args = [\r\n  "x",\r\n]\r\n'
        '[mcp_servers.satchel.env]\r\nA = "1"\r\n'
    )
    edited = with_entry(before, Fields("satchel", {"command": "/new", "args": ["mcp"]}), key=KEY)
    assert edited == (
        '[mcp_servers.satchel]\r\nstartup_timeout_sec = 20\r\ncommand = "/new" # mine\r\nargs = ["mcp"]\r\n'
        '[mcp_servers.satchel.env]\r\nA = "1"\r\n',
        "updated",
    )


@pytest.mark.parametrize("end", ["", "\n", "\nenabled = true\n"])
def test_what_an_entry_lacks_is_put_under_its_heading(end: str):
    edited = with_entry(
        "[mcp_servers.satchel]" + end, Fields("satchel", {"command": "/new", "args": ["mcp"]}), key=KEY
    )
    assert edited.text.startswith('[mcp_servers.satchel]\ncommand = "/new"\nargs = ["mcp"]')
    assert edited.text.endswith(end)


def test_newer_toml_is_read():
    text = "[mcp_servers.a]\nenv = {\n  A = 1, # one\n}\n"
    assert uninstalled(installed(text)) == text


def test_a_value_that_equals_nothing_is_no_obstacle():
    assert uninstalled(installed("x = nan\n")) == "x = nan\n"


@each_row(
    ("text", "reason"),
    [
        ("a = [\n", "not TOML"),
        ("model = o3\n", "line 1, column 9"),
        ("a = 1\na = 2\n", "line 2"),
        ("mcp_servers = 1\n", "mcp_servers must be a table"),
        ("[[mcp_servers]]\nx = 1\n", "mcp_servers must be a table"),
        ("[mcp_servers]\nsatchel = 1\n", "mcp_servers.satchel must be a table"),
        ('[mcp_servers.satchel]\nurl = "https://x"\n', "a remote server"),
        ('mcp_servers = { a = { command = "x" } }\n', "write its servers as tables"),
        ('[mcp_servers]\nsatchel = { command = "x" }\n', "write its servers as tables"),
        ("[mcp_servers.satchel.env]\nA = 1\n", "write its servers as tables"),
        ("a = " + "[" * 50_000, "not TOML"),
    ],
)
def test_what_cannot_be_edited_is_refused(text: str, reason: str):
    with pytest.raises(InputError) as caught:
        with_entry(text, ENTRY, key=KEY)
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_entry_within_the_braces_of_all_servers_is_not_cut_out():
    with pytest.raises(InputError, match="write its servers as tables"):
        without_entry('mcp_servers = { satchel = { command = "x" } }\n', "satchel", key=KEY)
