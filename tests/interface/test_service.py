"""The service in a separate process: the JSON API, and which requests and callers it rejects."""

import json
import re
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

import anyio
import httpx2
import mcp
import msgspec
import pytest
from mcp.client.streamable_http import streamable_http_client

import satchel
from mcp_pipe import HELLO, LONGEST_WAIT, request
from satchel.server.http.problems import NAMESPACE
from satchel.server.http.routes import ROUTES, Route
from service_client import Reply, Served, token_in
from tables import each_row

MARKER = "the-marker-of-globex"
# One value for each field that a body must have: a new route with a new one is not forgotten here.
FIELDS: dict[str, Any] = {
    "text": "something",
    "memories": [{"text": "something"}],
    "query": MARKER,
    "target": "00000000",
    "category": "user",
    "tool": "grep",
    "output": "a line",
    "cursor": "aaaaaaaa.0.aaaaaa",
    "pattern": ".",
}


@pytest.fixture(scope="module", params=[1, pytest.param(2, marks=pytest.mark.slow)], ids=["threads", "workers"])
def service(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with Served(tmp_path_factory.mktemp("served"), "--max-body", "128K", processes=request.param) as running:
        yield running


@pytest.fixture(scope="module")
def reader(service: Served) -> str:
    return token_in(service.tokens, "acme", "read")


@pytest.fixture(scope="module")
def narrow(service: Served) -> str:
    return token_in(service.tokens, "acme", "write", project="harbor")


@pytest.fixture(scope="module")
def watcher(service: Served) -> str:
    return token_in(service.tokens, None, "metrics")


class Other(msgspec.Struct):
    """What another tenant has."""

    token: str
    names: dict[str, str]


@pytest.fixture(scope="module")
def globex(service: Served) -> Other:
    token = token_in(service.tokens, "globex")
    memory = service.done("POST", "/v1/memories", {"text": MARKER, "title": MARKER}, token=token)
    service.done("PUT", "/v1/sessions/theirs", {}, token=token)
    shown = service.done("POST", "/v1/sessions/theirs/results", {"tool": "t", "output": MARKER}, token=token)
    return Other(token, {"id": memory["id"], "target": memory["id"], "name": "theirs", "handle": shown["handle"]})


def body_for(route: Route) -> dict[str, Any] | None:
    if route.body is None:
        return None
    needed = {field.name: FIELDS[field.name] for field in msgspec.structs.fields(route.body) if field.required}
    return needed or ({"text": FIELDS["text"]} if route.method == "PATCH" else {})


def every_route(function: Any) -> Any:
    return each_row("route", ROUTES)(function)


def asked(service: Served, route: Route, other: Other, **options: Any) -> Reply:
    """A route asked with what belongs to another tenant in its places."""
    return service.ask(route.method, route.path.format(**other.names), body_for(route), **options)


def assert_problem(reply: Reply, status: int, kind: str) -> None:
    assert reply.status == status, reply.content
    assert reply.headers["Content-Type"] == "application/problem+json"
    problem = reply.value
    assert problem["type"] == NAMESPACE + kind
    assert problem["status"] == status
    assert problem["title"]
    assert problem["detail"]
    assert "Traceback" not in problem["detail"]


def test_what_was_added_says_whether_it_is_new(service: Served):
    body = {"text": "Mangoes ripen in May.", "project": "mangoes", "topic_key": "mangoes"}
    first = service.done("POST", "/v1/memories", body)
    plain = {"text": body["text"], "project": "mangoes"}
    rows = service.done("POST", "/v1/memories/batch", {"memories": [plain, plain, {**plain, "text": "More."}]})
    changed = service.done("POST", "/v1/memories", {**body, "text": "Mangoes ripen in June."})
    told = [first, *rows["memories"], changed]
    assert [each["outcome"] for each in told] == ["saved", "confirmed", "confirmed", "saved", "updated"]
    assert [each["confirmations"] for each in told] == [0, 1, 2, 0, 2]
    assert {each["id"] for each in told} == {first["id"], told[3]["id"]}


def test_a_memory_is_added_found_changed_related_and_forgotten(service: Served):
    first = service.done("POST", "/v1/memories", {"text": "Quinces ripen in October.", "project": "orchard"})
    many = [
        {"text": f"Row {number} has quinces.", "project": "orchard", "ref": f"r{number}"} for number in range(3)
    ]
    rows = service.done("POST", "/v1/memories/batch", {"memories": many})["memories"]
    assert [row["revision"] for row in rows] == [1, 1, 1]
    assert first["scope"]["org"] == "acme"

    asked_for = {"query": "when do quinces ripen", "project": "orchard", "token_budget": 60}
    found = service.done("POST", "/v1/search", asked_for)
    assert found["hits"][0]["memory"]["id"] == first["id"]
    assert found["token_count"] <= found["token_budget"] == 60
    assert found["omitted"] > 0
    assert satchel.count_tokens(found["text"]) == found["token_count"]
    block = service.done("POST", "/v1/context", asked_for | {"receipt": True})
    assert block["token_count"] <= 60
    assert len(block["receipt"]["entries"]) == block["included"] + block["omitted"] + block["irrelevant"]
    pack = service.done("POST", "/v1/pack", asked_for | {"format": "json", "token_budget": 500})
    assert json.loads(pack["text"])["memories"][0]["text"].startswith(("Quinces", "Row"))
    assert first["id"] in {memory["id"] for memory in pack["memories"]}
    assert pack["included"] == len(pack["memories"])

    place = f"/v1/memories/{first['id']}"
    assert service.done("PATCH", place, {"title": "Quinces", "importance": 0.9})["title"] == "Quinces"
    assert service.done("PATCH", place, {"title": None})["title"] is None
    linked = service.done("POST", f"{place}/relations", {"target": rows[0]["id"], "kind": "caused_by"})
    assert service.done("GET", f"{place}/relations")["relations"] == [linked]
    assert service.done("GET", place)["relations"] == [linked]
    around = service.done("GET", f"/v1/memories/{rows[1]['id']}/timeline?before=1&after=1")
    assert [around["before"][0]["id"], around["after"][0]["id"]] == [rows[0]["id"], rows[2]["id"]]
    actions = [change["action"] for change in service.done("GET", f"{place}/history")["changes"]]
    assert actions == ["add", "update", "update", "relate"]

    assert service.done("DELETE", f"/v1/memories/{rows[0]['id']}")["count"] == 1
    assert service.done("DELETE", f"/v1/memories/{rows[1]['id']}?purge=true")["count"] == 1
    assert_problem(service.ask("GET", f"/v1/memories/{rows[1]['id']}"), 404, "unknown-id")
    left = service.done("GET", "/v1/memories?project=orchard&kind=observation&kind=fact")["memories"]
    assert {memory["id"] for memory in left} == {first["id"], rows[2]["id"]}
    assert service.done("GET", "/v1/stats?project=orchard")["current"] == 2
    assert service.done("DELETE", "/v1/memories?project=orchard&everything=true&purge=true")["count"] == 3


def test_a_memory_is_shown_as_it_was_at_an_earlier_moment(service: Served):
    first, other = (
        service.done("POST", "/v1/memories", {"text": text, "project": "past"})
        for text in ("as it was", "beside it")
    )
    service.done("PATCH", f"/v1/memories/{first['id']}", {"text": "as it is"})
    service.done("POST", f"/v1/memories/{first['id']}/relations", {"target": other["id"]})
    then = quote(other["created_at"])
    for as_of, text, relations in (("", "as it is", 1), (f"as_of={then}", "as it was", 0)):
        assert service.done("GET", f"/v1/memories/{first['id']}?{as_of}")["text"] == text
        assert service.done("GET", f"/v1/memories/{other['id']}/timeline?{as_of}")["before"][0]["text"] == text
        assert service.done("GET", f"/v1/memories?project=past&{as_of}")["memories"][1]["text"] == text
        found = service.done("GET", f"/v1/memories/{first['id']}/relations?{as_of}")["relations"]
        assert len(found) == relations
    asked = {"query": "it", "project": "past", "as_of": other["created_at"]}
    assert "as it was" in service.done("POST", "/v1/search", asked)["text"]
    assert_problem(service.ask("GET", f"/v1/memories/{first['id']}?as_of=someday"), 422, "input")
    service.done("DELETE", "/v1/memories?project=past&everything=true&purge=true")


def test_a_session_pages_through_a_result_and_gives_it_back_whole(service: Served):
    output = "".join(f"line {number}: something was logged here\n" for number in range(2_000))
    place = "/v1/sessions/build%2F7"
    opened = service.done("PUT", place, {"budget": {"total": 50_000}})
    assert (opened["session"], opened["total_budget"]) == ("build/7", 50_000)
    service.done("POST", f"{place}/entries", {"category": "user", "text": "Why does it fail?", "remember": True})
    call = service.done("POST", f"{place}/calls", {"tool": "log", "arguments": {"last": 2000}})
    shown = service.done(
        "POST", f"{place}/results", {"tool": "log", "output": output, "call_id": call["call_id"], "max_tokens": 900}
    )
    assert shown["token_count"] <= 900 <= shown["remaining_tokens"]
    contents = [shown["content"]]
    while shown["cursor"] and len(contents) < 4:
        shown = service.done("POST", f"{place}/pages", {"cursor": shown["cursor"], "max_tokens": 900})
        contents.append(shown["content"])
    assert output.startswith("".join(contents))
    handle = shown["handle"]
    assert service.done("GET", f"{place}/results/{handle}")["content"] == output
    found = service.done("POST", f"{place}/results/{handle}/matches", {"pattern": r"line 19\d\d:"})
    assert (found["matches"], found["complete"]) == (100, True)
    assert service.done("POST", f"{place}/turns")["turn"] == service.done("GET", place)["turn"]
    assert len(service.done("GET", f"{place}/entries")["entries"]) > 5
    assert service.done("GET", f"{place}/history?max_tokens=300")["token_count"] <= 300
    assert "build/7" in [each["session"] for each in service.done("GET", "/v1/sessions")["sessions"]]
    raw = service.done("POST", f"{place}/results", {"tool": "cat", "output": "/wA=", "encoding": "base64"})
    whole = service.done("GET", f"{place}/results/{raw['handle']}")
    assert (whole["encoding"], whole["content"]) == ("base64", "/wA=")
    (said,) = service.done("GET", "/v1/memories?session=build%2F7")["memories"]
    assert (said["text"], said["tier"], said["speaker"]) == ("Why does it fail?", "conversation", "user")
    assert service.ask("DELETE", place).status == HTTPStatus.NO_CONTENT
    assert_problem(service.ask("GET", place), 404, "unknown-id")


@every_route
def test_without_a_token_that_is_known_nobody_is_let_in(service: Served, route: Route, globex: Other):
    wrong = service.token[:-1] + ("A" if service.token[-1] != "A" else "B")
    for token in (None, wrong):
        reply = asked(service, route, globex, token=token)
        assert_problem(reply, 401, "unauthorized")
        assert reply.headers["WWW-Authenticate"].startswith("Bearer")
        assert MARKER.encode() not in reply.content


@every_route
def test_a_token_opens_only_what_it_is_for(service: Served, route: Route, globex: Other, reader: str, watcher: str):
    assert_problem(asked(service, route, globex, token=watcher), 403, "not-allowed")
    reply = asked(service, route, globex, token=reader)
    if route.access == "write":
        assert_problem(reply, 403, "not-allowed")
    else:
        assert reply.status in (200, 404)
    assert MARKER.encode() not in reply.content.replace(b"'" + MARKER.encode(), b"")


@every_route
def test_what_another_tenant_has_is_not_there(service: Served, route: Route, globex: Other):
    reply = asked(service, route, globex)
    if "{" in route.path and route.method != "PUT":
        assert_problem(reply, 404, "unknown-id")
    else:
        assert reply.status < 500
    if route.method == "PUT":
        service.done("DELETE", route.path.format(**globex.names))
    assert MARKER.encode() not in reply.content
    assert service.done("GET", f"/v1/memories/{globex.names['id']}", token=globex.token)["text"] == MARKER


@every_route
def test_to_name_another_org_is_refused(service: Served, route: Route, globex: Other, narrow: str):
    path, body = route.path.format(**globex.names), body_for(route)
    for field, named, token in (("org", "globex", ""), ("project", "quay", narrow)):
        if route.query is not None:
            reply = service.ask(route.method, f"{path}?{field}={named}", body, token=token)
        elif "memories" in (body or {}):
            reply = service.ask(route.method, path, {"memories": [{"text": "x", field: named}]}, token=token)
        else:
            reply = service.ask(route.method, path, body | {field: named}, token=token)
        assert_problem(reply, 403, "other-place")
        assert MARKER.encode() not in reply.content


def test_a_token_for_a_project_stays_in_it(service: Served, narrow: str):
    service.done("POST", "/v1/memories", {"text": "The crane is booked.", "project": "quay"})
    inside = service.done("POST", "/v1/memories", {"text": "The crane is broken."}, token=narrow)
    assert inside["scope"]["project"] == "harbor"
    found = service.done("POST", "/v1/search", {"query": "the crane"}, token=narrow)
    assert [hit["memory"]["id"] for hit in found["hits"]] == [inside["id"]]


def test_a_memory_moves_to_another_project_but_not_out_of_that_of_a_token(service: Served, narrow: str):
    inside = service.done("POST", "/v1/memories", {"text": "The crane is painted."}, token=narrow)
    place = f"/v1/memories/{inside['id']}"
    for elsewhere in ("quay", None):
        refused = service.ask("PATCH", place, {"move_to": elsewhere, "text": "never"}, token=narrow)
        assert_problem(refused, 422, "input")
    assert service.done("GET", place)["text"] == "The crane is painted."
    assert service.done("PATCH", place, {"move_to": "quay"})["scope"]["project"] == "quay"
    assert_problem(service.ask("GET", place, token=narrow), 404, "unknown-id")
    assert service.done("PATCH", place, {"move_to": None})["scope"].get("project") is None


def test_what_is_read_over_mcp_has_no_structured_content_and_what_is_written_has(service: Served):
    _, (saved, found) = talked(
        service,
        service.token,
        ("mem_save", {"text": "Sloes are picked after frost.", "wait_for_previous": True}),
        ("mem_search", {"query": "sloes after frost"}),
    )
    assert saved.structured_content["outcome"] == "saved"
    assert saved.content[0].text.endswith("\nignored: wait_for_previous")
    assert "Sloes" in found.content[0].text
    assert found.structured_content is None


@each_row(
    ("method", "path", "body", "headers", "status", "kind"),
    [
        ("GET", "/", None, {}, 404, "unknown-path"),
        ("GET", "/v1/memories/", None, {}, 404, "unknown-path"),
        ("GET", "/v1/memories/%ff", None, {}, 400, "malformed-path"),
        ("PUT", "/v1/memories", None, {}, 405, "unknown-method"),
        ("GET", "/v1/memories/batch", None, {}, 405, "unknown-method"),
        ("POST", "/healthz", None, {}, 405, "unknown-method"),
        ("POST", "/v1/memories", b"{}", {"Content-Type": "text/plain"}, 415, "unknown-media-type"),
        ("POST", "/v1/memories", b"{}", {"Content-Type": "application/json; charset=latin-1"}, 415,
         "unknown-media-type"),
        ("POST", "/v1/memories", b"{", {}, 400, "malformed-body"),
        ("POST", "/v1/memories", b'{"text": "\xff"}', {}, 400, "malformed-body"),
        ("POST", "/v1/memories", b'{"text": "\\ud800"}', {}, 400, "malformed-body"),
        ("POST", "/v1/sessions/s/results", b'{"tool": "t", "output": ' + b"[" * 30_000, {}, 400, "malformed-body"),
        ("POST", "/v1/memories", b'{"text": "a", "text": "b"}', {}, 400, "malformed-body"),
        ("POST", "/v1/memories", b'{"text": "a", "metadata": {"pr": 1, "p\\u0072": 2}}', {}, 400, "malformed-body"),
        ("GET", "/v1/memories?metadata=%7B%22pr%22:1,%22pr%22:2%7D", None, {}, 400, "malformed-query"),
        ("POST", "/v1/memories", b"", {}, 400, "malformed-body"),
        ("POST", "/v1/memories", b"[]", {}, 422, "invalid-body"),
        ("POST", "/v1/memories", {"text": "x", "colour": "red"}, {}, 422, "invalid-body"),
        ("POST", "/v1/memories", {"text": " "}, {}, 422, "invalid-body"),
        ("POST", "/v1/memories", {"text": "x", "at": "yesterday"}, {}, 422, "input"),
        ("POST", "/v1/search", {"query": "x", "token_budget": -1}, {}, 422, "invalid-body"),
        ("POST", "/v1/search?limit=3", {"query": "x"}, {}, 400, "malformed-query"),
        ("POST", "/v1/sessions/s/turns", {"turn": 3}, {}, 400, "unexpected-body"),
        ("GET", "/v1/memories?limit=3&limit=4", None, {}, 400, "malformed-query"),
        ("GET", "/v1/memories?colour=red", None, {}, 400, "malformed-query"),
        ("GET", "/v1/memories?project=%ff", None, {}, 400, "malformed-query"),
        ("GET", "/v1/memories?limit=1.0", None, {}, 422, "invalid-query"),
        ("GET", "/v1/memories?pinned=1", None, {}, 422, "invalid-query"),
        ("GET", "/v1/memories?limit=0", None, {}, 422, "invalid-query"),
        ("GET", "/v1/memories/00000000", None, {}, 404, "unknown-id"),
        ("DELETE", "/v1/memories", None, {}, 422, "input"),
        ("PUT", "/v1/sessions/s", {"budget": {"total": 10, "system": 20}}, {}, 422, "budget"),
        ("GET", "/v1/stats", None, {"Host": "evil.example"}, 421, "other-host"),
        ("GET", "/v1/stats", None, {"Host": "evil\x1b[31m"}, 421, "other-host"),
        ("GET", "/v1/stats", None, {"Origin": "http://evil.example"}, 403, "other-origin"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_plainly(
    service: Served, method: str, path: str, body: Any, headers: dict[str, str], status: int, kind: str
):
    reply = service.ask(method, path, body, headers=headers)
    assert_problem(reply, status, kind)
    assert ("Allow" in reply.headers) == (status == 405)


def test_a_key_that_is_given_twice_is_named(service: Served):
    before = service.done("GET", "/v1/stats")["memories"]
    twice = b'{"memories": [{"text": "a", "tags": []}, {"text": "b", "tags": [], "text": "c"}]}'
    reply = service.ask("POST", "/v1/memories/batch", twice)
    assert reply.value["detail"] == "in the body, the key 'text' is given twice in one object; give it once"
    headers = {"Accept": "application/json, text/event-stream"}
    call = b'{"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "mem_save", "name": "mem_get"}}'
    refused = service.ask("POST", "/mcp", call, headers=headers)
    assert refused.status == 400
    assert (refused.value["id"], refused.value["error"]["code"]) == (7, -32600)
    assert "the key 'name' is given twice" in refused.value["error"]["message"]
    assert service.done("GET", "/v1/stats")["memories"] == before


def test_a_body_that_is_too_large_is_refused_whether_its_length_is_said_or_not(service: Served):
    padded = b'{"text": "x"}' + b" " * 128 * 1024
    assert_problem(service.ask("POST", "/v1/memories", padded), 413, "large-body")
    chunks = (padded[place : place + 4096] for place in range(0, len(padded), 4096))
    assert_problem(service.ask("POST", "/v1/memories", chunks), 413, "large-body")
    fitting = iter([b'{"text": "in', b' two chunks"}'])
    assert (
        service.done("POST", "/v1/memories", fitting, headers={"Content-Type": "application/json"})["tokens"] == 3
    )


def test_everyone_may_ask_how_it_is_and_what_it_offers(service: Served):
    well = service.ask("GET", "/healthz", token=None, headers={"Host": "10.1.2.3"})
    assert (well.status, well.value) == (200, {"status": "ok"})
    described = service.ask("GET", "/openapi.json", token=None).value
    assert described["openapi"] == "3.1.0"
    assert {(path, method) for path, each in described["paths"].items() for method in each} == {
        (route.path, route.method.lower()) for route in ROUTES
    }


def test_an_object_in_a_query_is_described_as_one_parameter_of_json(service: Served):
    described = service.ask("GET", "/openapi.json", token=None).value
    parameters = {each["name"]: each for each in described["paths"]["/v1/memories"]["get"]["parameters"]}
    assert parameters["metadata"]["content"]["application/json"]["schema"]["type"] == "object"
    assert parameters["limit"]["schema"]["type"] == "integer"


def test_metrics_count_calls_and_tokens_and_are_for_who_may_see_them(service: Served, reader: str, watcher: str):
    service.done("POST", "/v1/context", {"query": "anything", "token_budget": 321})
    for token in (service.token, reader):
        assert_problem(service.ask("GET", "/metrics", token=token), 403, "not-allowed")
    text = service.ask("GET", "/metrics", token=watcher).content.decode()
    assert re.search(r'^satchel_calls_total\{operation="context",outcome="200"\} [1-9]', text, re.MULTILINE)
    assert re.search(r'^satchel_call_seconds_bucket\{operation="context",le="\+Inf"\} [1-9]', text, re.MULTILINE)
    asked_for = re.search(r'^satchel_tokens_asked_total\{operation="context"\} (\d+)$', text, re.MULTILINE)
    assert asked_for is not None
    assert int(asked_for[1]) >= 321
    assert re.search(r'^satchel_refusals_total\{reason="not-allowed"\} [1-9]', text, re.MULTILINE)


def talked(service: Served, token: str, *calls: tuple[str, dict[str, Any]]) -> tuple[set[str], list[Any]]:
    """What the official client is offered, and the answers to its calls."""

    async def talk() -> tuple[set[str], list[Any]]:
        carried = {"Authorization": f"Bearer {token}"}
        with anyio.fail_after(LONGEST_WAIT):
            async with (
                httpx2.AsyncClient(headers=carried) as line,
                mcp.Client(streamable_http_client(f"{service.url}/mcp", http_client=line)) as client,
            ):
                offered = {tool.name for tool in (await client.list_tools()).tools}
                return offered, [await client.call_tool(*call) for call in calls]

    return anyio.run(talk)


def test_the_official_client_works_with_what_its_token_opens(service: Served, globex: Other, reader: str):
    offered, (saved, found) = talked(
        service,
        service.token,
        ("mem_save", {"text": "Medlars are bletted in November."}),
        ("mem_search", {"query": f"medlars bletted {MARKER}"}),
    )
    assert {"mem_save", "mem_search", "context_pack"} <= offered
    assert not any(name.startswith("sdd_") for name in offered)
    assert "Medlars are bletted" in found.content[0].text
    assert MARKER not in found.content[0].text
    memory = service.done("GET", f"/v1/memories/{saved.structured_content['id']}")
    assert memory["scope"]["org"] == "acme"

    offered, (found, refused) = talked(
        service, reader, ("mem_search", {"query": "medlars"}), ("mem_save", {"text": "not for readers"})
    )
    assert "Medlars are bletted" in found.content[0].text
    assert refused.is_error
    assert not {"mem_save", "mem_update", "mem_forget", "mem_relate", "mem_session"} & offered
    assert "mem_search" in offered


def test_a_session_of_one_token_is_not_there_for_another(service: Served, globex: Other, watcher: str):
    begun = request(1, "initialize", HELLO)
    accepted = {"Accept": "application/json, text/event-stream"}
    started = service.ask("POST", "/mcp", begun, headers=accepted)
    carried = accepted | {"Mcp-Session-Id": started.headers["Mcp-Session-Id"]}
    listing = request(2, "tools/list", {})
    assert service.ask("POST", "/mcp", listing, headers=carried).status == 200
    assert service.ask("POST", "/mcp", listing, headers=carried, token=globex.token).status == 404
    assert_problem(service.ask("POST", "/mcp", listing, headers=carried, token=None), 401, "unauthorized")
    assert_problem(service.ask("POST", "/mcp", listing, headers=carried, token=watcher), 403, "not-allowed")
    assert service.ask("POST", "/mcp", begun, headers=accepted | {"Host": "evil.example"}).status == 421
    assert_problem(service.ask("POST", "/mcp", b" " * 140_000, headers=accepted), 413, "large-body")


def test_what_is_added_comes_with_the_similar_memories_of_its_place(service: Served, globex: Other):
    old = service.done(
        "POST", "/v1/memories", {"text": "Our CI runs on Jenkins.", "project": "ci", "session": "monday"}
    )
    assert old["similar"] == []
    moved = {"text": "We moved CI from Jenkins to GitHub Actions.", "project": "ci", "session": "tuesday"}
    service.done("POST", "/v1/memories", {"text": "Our CI runs on Jenkins.", "project": "ci-too"})
    service.done("POST", "/v1/memories", {"text": "Our CI runs on Jenkins."}, token=globex.token)
    new = service.done("POST", "/v1/memories", moved)
    (named,) = new["similar"]
    assert (named["id"], named["headline"]) == (old["id"], "Our CI runs on Jenkins.")
    assert named["at"] == old["at"]
    assert 0.5 <= named["score"] <= 1
    assert new["scope"]["session"] == "tuesday"
    assert service.done("GET", f"/v1/memories/{new['id']}/similar") == {"similar": new["similar"]}
    assert service.done("GET", f"/v1/memories/{new['id']}/similar?session=tuesday&limit=1") == {"similar": []}
    silent = service.done("POST", "/v1/memories", moved | {"similar": False})
    assert silent["similar"] == []
    turn = service.done("POST", "/v1/memories", moved | {"tier": "conversation"})
    assert turn["similar"] == []
    (row,) = service.done("POST", "/v1/memories/batch", {"memories": [moved]})["memories"]
    assert "similar" not in row
    assert_problem(service.ask("GET", f"/v1/memories/{new['id']}/similar?limit=0"), 422, "invalid-query")
