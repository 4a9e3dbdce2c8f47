"""A token bound to a project learns nothing of other projects: every route, every MCP tool, every handle."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import msgspec
import pytest

import satchel
from mcp_pipe import HELLO, request, tool_call
from satchel.model.ids import short_id
from satchel.model.memory import Scope
from satchel.server.http.routes import ROUTES, Route
from satchel.store import memories
from service_client import Served, token_in

pytestmark = pytest.mark.slow

OWN, FOREIGN = "harbor", "zz-foreign-project"
FOREIGN_WORDS = (FOREIGN, "foreign-tag", "foreign-session", "foreign-user", "kestrel")
UNKNOWN_ID = "019f0000-0000-7000-8000-0123456789ab"
ACCEPT = {"Accept": "application/json, text/event-stream"}
# What a route or a tool must be given, by name. A new one is not forgotten here: its name is missing.
FIELDS: dict[str, Any] = {
    "text": "The crane is painted green.",
    "memories": [{"text": "The quay has two cranes."}],
    "query": "crane",
    "category": "user",
    "tool": "grep",
    "output": "a line",
    "pattern": ".",
    "action": "start",
}
ID_PARAMETERS = ("id", "ids", "source", "target", "memory_id", "relate_to")


class Place(NamedTuple):
    """What a project has: two memories, a session, and a result in it."""

    first: str
    second: str
    moved: str
    session: str
    handle: str
    cursor: str

    def name(self, place: str) -> str:
        return {"id": self.first, "target": self.second, "name": self.session, "handle": self.handle}[place]


class Setting(NamedTuple):
    service: Served
    token: str
    own: Place
    foreign: Place

    @property
    def secrets(self) -> list[bytes]:
        ids = (self.foreign.first, self.foreign.second)
        named = (*ids, *(short_id(each, (None, None), least=4) for each in ids), self.foreign.handle)
        return [each.encode() for each in (*named, *FOREIGN_WORDS)]

    def asked(self, method: str, path: str, body: Any = None, **options: Any) -> tuple[int, bytes]:
        reply = self.service.ask(method, path, body, token=self.token, **options)
        return reply.status, reply.content

    def check(self, content: bytes, about: object) -> None:
        for secret in self.secrets:
            # As a word: a short id may be a part of one by chance.
            found = re.search(rb"(?<![a-z0-9])" + re.escape(secret) + rb"(?![a-z0-9])", content)
            assert found is None, (about, secret, content[:2_000])


def fill(bag: satchel.Satchel, project: str, session: str, *, user: str | None, tag: str, word: str) -> Place:
    view = bag.scoped(project=project, user=user) if user else bag.scoped(project=project)
    first = view.add(f"The crane of {word} is red.", title=f"Crane {word}", tags=[tag], kind="decision")
    second = view.add(f"The crane of {word} is blue.", tags=[tag])
    moved = view.add(f"A note of {word} about the crane.")
    ledger = view.session(session)
    ledger.record("user", f"What does {word} say?")
    shown = ledger.result("grep", "\n".join(f"line {number} of {word}" for number in range(5_000)), max_tokens=300)
    assert shown.cursor is not None
    return Place(first.id, second.id, moved.id, session, shown.handle, shown.cursor)


@pytest.fixture
def setting(location: Path | str, tmp_path: Path) -> Iterator[Setting]:
    with satchel.open(location) as store:
        bag = store.scoped(org="acme")
        own = fill(bag, OWN, "own-session", user=None, tag="own-tag", word="osprey")
        foreign = fill(bag, FOREIGN, "foreign-session", user="foreign-user", tag="foreign-tag", word="kestrel")
        # Relations across projects, which only a view of the whole org can make.
        bag.relate(foreign.first, own.first, "supersedes")
        bag.relate(own.second, foreign.second, "supersedes")
        bag.relate(foreign.second, own.second, "contradicts")
        bag.relate(own.moved, foreign.first, "related")
        bag.unrelate(own.moved, foreign.first)
        bag.relate(own.moved, own.second, "related")
        # A memory that was moved from the other project.
        with bag._store.writing("acme") as tx:
            moved = {"scope": Scope(org="acme", project=OWN)}
            memories.change(tx, Scope(org="acme"), foreign.moved, moved, action="update")
            memories.change(tx, Scope(org="acme"), foreign.moved, {"text": "Moved here."}, action="update")
    with Served(tmp_path, "--db", str(location)) as service:
        token = token_in(service.tokens, "acme", "write", project=OWN)
        yield Setting(service, token, own, foreign)


def body_of(route: Route, place: Place) -> dict[str, Any] | None:
    if route.body is None:
        return None
    given = FIELDS | {"target": place.second, "cursor": place.cursor}
    needed = {field.name: given[field.name] for field in msgspec.structs.fields(route.body) if field.required}
    optional: dict[str, Any] = {
        "memories.update": {"title": "Painted"},
        "memories.unforget": {"ids": [place.second]},
    }
    return needed or optional.get(route.operation, {})


def path_of(route: Route, place: Place, **other: str) -> str:
    path = route.path
    for name in ("id", "target", "name", "handle"):
        path = path.replace(f"{{{name}}}", quote(other.get(name) or place.name(name), safe=""))
    return path


def queries(route: Route) -> list[str]:
    """The usual query, and one that also shows what has ended."""
    if route.operation == "memories.forget":
        return ["?everything=true"]
    fields = {field.encode_name for field in msgspec.structs.fields(route.query)} if route.query else set()
    return [
        "",
        *(["?ended=true"] if "ended" in fields else []),
        *(["?as_of=2200-01-01"] if "as_of" in fields else []),
    ]


def in_order(route: Route) -> int:
    """Reads first, and what removes things last."""
    return ("GET", "POST", "PUT", "PATCH", "DELETE").index(route.method)


def test_no_route_tells_of_another_project(setting: Setting):
    for route in sorted(ROUTES, key=in_order):
        body = body_of(route, setting.own)
        wider = [
            body,
            *([body | {"ended": True, "limit": 100}] if route.operation in ("search", "context", "pack") else []),
        ]
        for query in queries(route):
            for each in wider:
                path = path_of(route, setting.own) + query
                status, content = setting.asked(route.method, path, each)
                assert status < 300 or (status, query) == (404, "?as_of=2200-01-01"), (route.operation, content)
                setting.check(content, (route.operation, query))
                if route.method == "DELETE":
                    break
    for identifier in (setting.own.second, setting.own.moved):
        status, content = setting.asked("GET", f"/v1/memories/{identifier}/history")
        assert status == 200
        setting.check(content, "history")


def test_a_memory_that_came_from_another_project_does_not_say_from_where(setting: Setting):
    status, content = setting.asked("GET", f"/v1/memories/{setting.foreign.moved}/history")
    assert status == 200
    changes = json.loads(content)["changes"]
    ((before, after),) = [change["changes"]["scope"] for change in changes if "scope" in change["changes"]]
    assert before is None
    assert after["project"] == OWN
    for word in (FOREIGN, "foreign-user"):
        assert word.encode() not in content


def test_what_superseded_a_memory_is_not_named_in_refusals(setting: Setting):
    own, second = setting.own.first, setting.own.second
    path = f"/v1/memories/{own}/relations"
    status, content = setting.asked("POST", path, {"target": second, "kind": "supersedes"})
    assert status == 422
    assert b"is itself superseded, by another memory" in content
    setting.check(content, "relate")


def test_a_foreign_handle_is_answered_as_an_unknown_one_on_every_route(setting: Setting):
    foreign, own = setting.foreign, setting.own
    unknown = {"id": UNKNOWN_ID, "target": UNKNOWN_ID, "name": "no-such-name", "handle": "zzzzzzzz"}
    for route in sorted(ROUTES, key=in_order):
        for place in ("id", "target", "name", "handle"):
            if f"{{{place}}}" not in route.path or route.operation == "sessions.open":
                continue
            answers = []
            for value in (foreign.name(place), unknown[place]):
                answer = setting.asked(route.method, path_of(route, own, **{place: value}), body_of(route, own))
                answers.append((answer[0], answer[1].replace(value.encode(), b"GIVEN")))
            assert answers[0] == answers[1], route.operation
            assert answers[0][0] in (404, 422), (route.operation, answers)
            setting.check(answers[0][1], route.operation)
    bodies = (
        ("POST", f"/v1/memories/{own.second}/relations", "target", foreign.first, UNKNOWN_ID),
        ("POST", "/v1/memories/unforget", "ids", [foreign.first], [UNKNOWN_ID]),
        ("POST", f"/v1/sessions/{own.session}/pages", "cursor", foreign.cursor, "zzzzzzzz" + foreign.cursor[8:]),
    )
    for method, path, field, theirs, nobodys in bodies:
        answers = []
        for value in (theirs, nobodys):
            status, content = setting.asked(method, path, {field: value})
            for given in value if isinstance(value, list) else [value, value.partition(".")[0]]:
                content = content.replace(given.encode(), b"GIVEN")
            answers.append((status, content))
        assert answers[0] == answers[1], (path, field)
        assert answers[0][0] == 404, answers


class Tools:
    """The MCP server of the bound token."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        begun = setting.service.ask(
            "POST", "/mcp", request(1, "initialize", HELLO), headers=ACCEPT, token=setting.token
        )
        self._headers = ACCEPT | {"Mcp-Session-Id": begun.headers["Mcp-Session-Id"]}

    def ask(self, method: str, params: dict[str, Any]) -> bytes:
        status, content = self._setting.asked("POST", "/mcp", request(2, method, params), headers=self._headers)
        assert status == 200, content
        return content

    def call(self, tool: str, arguments: dict[str, Any]) -> bytes:
        sent = tool_call(2, tool, **arguments)
        status, content = self._setting.asked("POST", "/mcp", sent, headers=self._headers)
        assert status == 200, content
        return content


def shaped(schema: dict[str, Any], value: str) -> Any:
    return [value] if schema.get("type") == "array" else value


def test_no_mcp_tool_tells_of_another_project(setting: Setting):
    tools = Tools(setting)
    offered = json.loads(tools.ask("tools/list", {}))["result"]["tools"]
    assert len(offered) > 8
    removing = [tool for tool in offered if tool["annotations"].get("destructiveHint")]
    for tool in [each for each in offered if each not in removing] + removing:
        properties = tool["inputSchema"]["properties"]
        named = {name: shaped(properties[name], setting.own.first) for name in ID_PARAMETERS if name in properties}
        given = {name: FIELDS[name] for name in tool["inputSchema"].get("required", ()) if name not in named}
        given |= {name: value for name, value in named.items() if name in ("id", "ids", "memory_id")}
        if {"source", "target"} <= named.keys():
            given |= {"source": setting.own.moved, "target": setting.own.second}
        for more in ({}, {"ended": True}, {"detail_level": "full"}):
            if more.keys() <= properties.keys():
                setting.check(tools.call(tool["name"], given | more), (tool["name"], more))
        for name in named:
            answers = []
            for value in (setting.foreign.first, UNKNOWN_ID):
                arguments = given | {name: shaped(properties[name], value)}
                answers.append(tools.call(tool["name"], arguments).replace(value.encode(), b"GIVEN"))
            assert answers[0] == answers[1], (tool["name"], name)
            setting.check(answers[0], (tool["name"], name))


def test_resources_and_completions_know_no_other_project(setting: Setting):
    tools = Tools(setting)
    for method in ("resources/list", "resources/templates/list", "prompts/list"):
        setting.check(tools.ask(method, {}), method)
    for uri, theirs, nobodys in (
        ("satchel://memory/", setting.foreign.first, UNKNOWN_ID),
        ("satchel://pack/", FOREIGN, "no-such-project"),
    ):
        answers = [
            tools.ask("resources/read", {"uri": uri + value}).replace(value.encode(), b"GIVEN")
            for value in (theirs, nobodys)
        ]
        assert answers[0] == answers[1]
    for ref in (
        {"type": "ref/resource", "uri": "satchel://pack/{project}"},
        {"type": "ref/prompt", "name": "memory-guide"},
    ):
        for written in ("", FOREIGN[:4], FOREIGN):
            asked = {"ref": ref, "argument": {"name": "project", "value": written}}
            found = json.loads(tools.ask("completion/complete", asked))["result"]["completion"]["values"]
            assert found == ([OWN] if not written else [])
