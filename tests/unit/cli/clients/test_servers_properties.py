"""For any file of a client, moving servers out changes nothing else, and restoring gives the same bytes."""

import tomllib
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from written_json import KEY, documents, parsed, servers_of

from satchel.cli.clients import json_file, toml_file
from satchel.cli.clients.entry import Fields
from satchel.cli.clients.json_file import with_entry

FIELDS = {"command": "/opt/satchel", "args": ["gateway", "--config", "a // b"]}
ENTRY = Fields("satchel-gateway", FIELDS)
NAME = ENTRY.name


@settings(max_examples=60)
@given(documents(), st.data())
def test_json_servers_make_place_for_the_gateway_and_come_back(
    made: tuple[dict[str, Any], str], data: st.DataObject
):
    document, text = made
    servers = servers_of(document)
    listed = json_file.listed(text, key=KEY)
    assert {each.name: each.value for each in listed} == servers
    names = [name for name in servers if data.draw(st.booleans())]
    sources = {each.name: each.source for each in listed if each.name in names}
    for name, source in sources.items():
        (alone,) = json_file.listed(json_file.single_server_file(source, key=KEY), key=KEY)
        assert (alone.name, alone.value) == (name, servers[name])

    after = json_file.with_gateway(text, names, ENTRY, key=KEY)
    left = {name: value for name, value in servers.items() if name not in names}
    assert parsed(after) == {**document, KEY: {**left, NAME: FIELDS}}

    region = json_file.region(text, after, key=KEY)
    if KEY in document:
        assert json_file.region_restored(after, region, sources, NAME, key=KEY) == text
        assert json_file.region_restored(text, region, sources, NAME, key=KEY) is None

    back = json_file.with_servers(after, sources, NAME, key=KEY)
    assert parsed(back) == {**document, KEY: servers}
    assert all(source in back for source in sources.values())

    # As if someone had written one more and removed the gateway by hand.
    more = with_entry(after, ENTRY._replace(name="more"), key=KEY).text
    assert json_file.region_restored(more, region, sources, NAME, key=KEY) is None
    bare = json_file.with_servers(more, {}, NAME, key=KEY)
    assert parsed(bare) == {**document, KEY: {**left, "more": FIELDS}}
    back = json_file.with_servers(bare, sources, NAME, key=KEY)
    assert parsed(back) == {**document, KEY: {**servers, "more": FIELDS}}


PIECES = {
    "a": '[mcp_servers.a]\ncommand = "a" # why\nargs = [\n  "x", # ]\n]\n',
    "b c": '[mcp_servers."b c"]\nurl = """\nhttps://b"""\n# between\n[mcp_servers."b c".http_headers]\nK = "v"\n',
    "d": '  [ mcp_servers . d ]\n  command = "d"\n  env.A.b = 1\n',
}
OTHERS = ['[projects."/x"]\ntrust = "[mcp_servers.a]"\n', "[[hooks]]\nrun = 1\n", "# a remark\n"]


@st.composite
def toml_texts(draw: st.DrawFn) -> tuple[list[str], str]:
    """Servers in any order, with other tables, remarks and blank lines anywhere between them."""
    names = draw(st.lists(st.sampled_from(sorted(PIECES)), unique=True, min_size=1))
    pieces = [PIECES[name] for name in names] + draw(st.lists(st.sampled_from(OTHERS), unique=True))
    text = draw(st.sampled_from(["", 'model = "x"\n', "# top\n\n"]))
    for piece in draw(st.permutations(pieces)):
        text += piece + draw(st.sampled_from(["", "\n", "\n\n", "# below\n\n"]))
    text = text if draw(st.booleans()) else text.rstrip("\n")
    return names, text.replace("\n", draw(st.sampled_from(["\n", "\r\n"])))


@settings(max_examples=60)
@given(toml_texts(), st.data())
def test_toml_servers_make_place_for_the_gateway_and_come_back(made: tuple[list[str], str], data: st.DataObject):
    names, text = made
    document = tomllib.loads(text)
    servers = document["mcp_servers"]
    listed = toml_file.listed(text, key="mcp_servers")
    assert {each.name: (each.value, each.fixed) for each in listed} == {
        name: (servers[name], None) for name in names
    }
    moved = [name for name in names if data.draw(st.booleans())]
    sources = {each.name: each.source for each in listed if each.name in moved}
    assert all(tomllib.loads(source)["mcp_servers"] == {name: servers[name]} for name, source in sources.items())

    gateway = {**FIELDS, "env_vars": ["T"]}
    after = toml_file.with_gateway(text, moved, Fields(NAME, gateway), key="mcp_servers")
    left = {name: value for name, value in servers.items() if name not in moved}
    assert tomllib.loads(after) == {**document, "mcp_servers": {**left, NAME: gateway}}
    assert after.count("#") == text.count("#") - sum(source.count("#") for source in sources.values())

    region = toml_file.region(text, after, key="mcp_servers")
    assert toml_file.region_restored(after, region, sources, NAME, key="mcp_servers") == text

    for later in (
        after,
        after + ("\n" if not after.endswith("\n") else "") + '[mcp_servers.more]\ncommand = "m"\n',
    ):
        more = {"more": {"command": "m"}} if later != after else {}
        back = toml_file.with_servers(later, sources, NAME, key="mcp_servers")
        assert tomllib.loads(back) == {**document, "mcp_servers": {**servers, **more}}
        bare = toml_file.with_servers(later, {}, NAME, key="mcp_servers")
        assert tomllib.loads(bare).get("mcp_servers", {}) == {**left, **more}
        back = toml_file.with_servers(bare, sources, NAME, key="mcp_servers")
        assert tomllib.loads(back) == {**document, "mcp_servers": {**servers, **more}}


def test_a_toml_server_that_is_not_written_as_a_table_stays():
    text = '[mcp_servers]\na = { command = "a" }\nb.command = "b"\n\n[mcp_servers.c]\ncommand = "c"\n'
    fixed = {each.name: each.fixed for each in toml_file.listed(text, key="mcp_servers")}
    assert fixed == {
        "a": "it is not written as a table [mcp_servers.a]",
        "b": "it is not written as a table [mcp_servers.b]",
        "c": None,
    }


def test_a_line_added_to_the_gateways_table_does_not_end_up_in_a_server():
    text = '[mcp_servers.a]\ncommand = "a"\n'
    after = toml_file.with_gateway(text, ["a"], ENTRY, key="mcp_servers")
    region = toml_file.region(text, after, key="mcp_servers")
    edited = after + "startup_timeout_sec = 30\n"
    assert toml_file.region_restored(edited, region, {"a": text}, NAME, key="mcp_servers") is None
    assert toml_file.with_servers(edited, {"a": text}, NAME, key="mcp_servers") == text


def test_a_value_nested_deeper_than_can_be_told_is_no_reason_to_fail():
    deep = "[" * 100_000 + "]" * 100_000
    text = f'{{"mcpServers": {{"a": {deep}, "b": {{"command": "b"}}}}}}'
    first, second = json_file.listed(text, key="mcpServers")
    assert (first.value, second.value) == (None, {"command": "b"})
