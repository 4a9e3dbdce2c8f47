"""What a gateway forwards between the official client and several servers, besides tool results."""

import json

import mcp_types as types
import pytest
from gateway_client import config, gateway_client, texts, upstream, wait_until

from satchel.text.tokens import count_tokens

# The client warns of what later versions of the protocol do without; servers of today still have it.
of_the_handshake_era = pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")


@pytest.fixture(scope="module")
def log():
    return []


@pytest.fixture(scope="module")
def gateway(tmp_path_factory, log):
    folder = tmp_path_factory.mktemp("passing")
    servers = config(
        folder,
        one=upstream("--name", "one", env={"COLOUR": "${HUE:-blue}"}, cwd=str(folder)),
        two=upstream("--name", "two", "--only", "echo,whoami", "--resource", "test://two"),
        three=upstream("--name", "three", "--only", "cancelled,whoami", "--resource", "test://one")
        | {"excludeTools": ["whoami"]},
        gone={"command": "no-such-command-anywhere"},
        bare={"command": "x", "env": {"KEY": "${NOT_SET_ANYWHERE}"}},
        off={"command": "x", "disabled": True},
    )

    async def roots(context):
        return types.ListRootsResult(roots=[types.Root(uri="file:///home/me")])

    async def logged(params):
        log.append(params)

    with gateway_client(folder, "--config", servers, list_roots_callback=roots, logging_callback=logged) as client:
        yield client


def told(gateway, kind):
    return [each for each in gateway.told if isinstance(each, kind)]


def test_the_client_falls_back_to_the_handshake_and_is_told_how_to_page(gateway):
    assert gateway.client.protocol_version == "2025-11-25"
    assert gateway.client.server_info.name == "satchel-gateway"
    instructions = gateway.client.instructions
    assert "result_page(cursor)" in instructions
    assert "one: Ask me anything." in instructions
    assert count_tokens(instructions) <= 1_000


def test_tools_that_clash_carry_their_servers_name_and_reach_it(gateway):
    names = gateway.names()
    assert names[:2] == ["one__echo", "one__whoami"]
    assert names[-5:] == ["two__whoami", "three__cancelled", "result_page", "result_find", "budget_status"]
    assert "bulk" in names
    assert len(names) == len(set(names))
    for server in ("one", "two"):
        assert texts(gateway.call(f"{server}__whoami"))[0].startswith(f"{server} ")


def test_a_server_that_cannot_be_started_is_reported_and_the_others_go_on(gateway):
    said = "satchel: the server gone cannot be started: there is no command 'no-such-command-anywhere'"
    wait_until(lambda: said in gateway.errors)
    servers = json.loads(texts(gateway.call("budget_status"))[0])["servers"]
    assert [servers[name] for name in ("one", "two", "three")] == ["ready"] * 3
    assert servers["gone"].startswith("failed: it cannot be started")
    assert "off" not in servers


def test_a_variable_that_is_not_set_is_reported_and_the_others_go_on(gateway):
    servers = json.loads(texts(gateway.call("budget_status"))[0])["servers"]
    assert "NOT_SET_ANYWHERE, which is not set" in servers["bare"]
    assert servers["one"] == "ready"


def test_tools_that_were_hidden_from_the_client_are_not_offered(gateway):
    names = gateway.names()
    assert {"one__whoami", "two__whoami"} <= set(names)
    assert "three__whoami" not in names
    assert gateway.call("three__whoami").is_error


def test_a_server_has_the_environment_and_folder_of_its_configuration(gateway):
    said = json.loads(texts(gateway.call("environment", names=["COLOUR", "SATCHEL_GATEWAY"]))[0])
    assert (said["COLOUR"], said["SATCHEL_GATEWAY"]) == ("blue", "one")
    assert "passing" in said["cwd"]


def test_prompts_clash_as_tools_do_and_are_got_from_their_server(gateway):
    names = [prompt.name for prompt in gateway.ask("list_prompts").prompts]
    assert names == ["one__greet", "two__greet", "three__greet"]
    got = gateway.ask("get_prompt", "two__greet", {"who": "Ana"})
    assert got.messages[0].content.text == "Greet Ana from two"


def test_resources_come_from_the_first_that_has_them(gateway):
    assert [each.uri for each in gateway.ask("list_resources").resources] == ["test://one", "test://two"]
    wait_until(lambda: "one and three both have test://one; the first is used" in gateway.errors)
    for address, server in (("test://one", "one"), ("test://two", "two"), ("three://item/7", "three")):
        assert gateway.ask("read_resource", address).contents[0].text == f"{address} by {server}"
    templates = [each.uri_template for each in gateway.ask("list_resource_templates").resource_templates]
    assert templates == ["one://item/{id}", "two://item/{id}", "three://item/{id}"]


def test_a_resource_that_nobody_lists_is_asked_of_the_first_that_may_have_it(gateway):
    assert gateway.ask("read_resource", "other://thing").contents[0].text == "other://thing by one"


def test_arguments_are_completed_by_the_server_that_has_the_prompt_or_template(gateway):
    argument = {"name": "who", "value": "A"}
    prompt = types.PromptReference(type="ref/prompt", name="two__greet")
    assert gateway.ask("complete", prompt, argument).completion.values == ["A-two"]
    template = types.ResourceTemplateReference(type="ref/resource", uri="three://item/{id}")
    assert gateway.ask("complete", template, argument).completion.values == ["A-three"]


def test_progress_is_reported_under_the_clients_own_token(gateway):
    reports = []

    async def report(progress, total, message):
        reports.append((progress, total))

    gateway.ask("call_tool", "steps", {"number": 5}, progress_callback=report)
    assert reports == [(step, 5) for step in range(1, 6)]


def test_a_list_that_changes_is_told_and_the_new_tool_can_be_called(gateway):
    assert "grown_0" not in gateway.names()
    gateway.call("grow")
    wait_until(lambda: bool(told(gateway, types.ToolListChangedNotification)))
    assert "grown_0" in gateway.names()
    assert texts(gateway.call("grown_0"))[0] == "fresh"


@of_the_handshake_era
def test_a_resource_that_is_subscribed_to_tells_of_its_changes(gateway):
    gateway.ask("subscribe_resource", "test://two")
    wait_until(lambda: bool(told(gateway, types.ResourceUpdatedNotification)))
    assert told(gateway, types.ResourceUpdatedNotification)[0].params.uri == "test://two"
    gateway.ask("unsubscribe_resource", "test://two")


@of_the_handshake_era
def test_the_level_of_the_log_is_set_for_all_and_their_messages_come(gateway, log):
    gateway.ask("set_logging_level", "warning")
    wait_until(lambda: {each.data for each in log} == {"one", "two", "three"})


def test_a_server_may_ask_the_client(gateway):
    assert json.loads(texts(gateway.call("roots"))[0]) == {"roots": [{"uri": "file:///home/me"}]}


def test_what_a_server_remarks_is_passed_in_lines_with_its_name_and_without_secrets(gateway):
    gateway.call("remark", text="started\nkey=sk-ant-api03-" + "A1b2C3d4" * 12)
    wait_until(lambda: "satchel: one: key=" in gateway.errors)
    assert "satchel: one: started\n" in gateway.errors
    assert "A1b2C3d4A1b2" not in gateway.errors
