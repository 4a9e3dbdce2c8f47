"""The description of the API in OpenAPI 3.1, made from the table of routes and the values' own types."""

import re
from typing import Any

import msgspec

from satchel import __version__
from satchel.server.http.problems import MEDIA_TYPE, Problem
from satchel.server.http.routes import ROUTES, Route

__all__ = ["openapi"]

_REFS = "#/components/schemas/{name}"
_REFUSALS = {
    "400": "No JSON, no UTF-8, or no such parameter.",
    "401": "Without a token that is known.",
    "403": "The token does not allow it.",
    "404": "Nothing has this id in what the token may see.",
    "408": "The body did not come in time.",
    "409": "Several memories share this prefix.",
    "410": "What a handle stands for is no longer kept.",
    "413": "The body is too large.",
    "415": "The body is not announced as JSON.",
    "422": "A field is wrong, or the answer would be too large; nothing was changed.",
    "429": "Too many requests; Retry-After says when.",
    "503": "Busy or stopping; Retry-After says when.",
}


def openapi() -> dict[str, Any]:
    """The document at `/openapi.json`."""
    types = [each for route in ROUTES for each in (route.body, route.answer) if each is not None]
    named, components = msgspec.json.schema_components([*types, Problem], ref_template=_REFS)
    refs = dict(zip([*types, Problem], named, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for route in ROUTES:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, refs)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Satchel",
            "version": __version__,
            "description": "Memory for LLM agents that fits the token budget you give it.",
        },
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(route: Route, refs: dict[Any, Any]) -> dict[str, Any]:
    done: dict[str, Any] = {"description": route.about}
    if route.answer is not None:
        done["content"] = {"application/json": {"schema": refs[route.answer]}}
    problem = {MEDIA_TYPE: {"schema": refs[Problem]}}
    operation: dict[str, Any] = {
        "operationId": route.operation,
        "summary": route.about,
        "description": f"Needs a token for {route.access}.",
        "parameters": [*_places(route), *_parameters(route.query)],
        "responses": {
            str(int(route.status)): done,
            **{status: {"description": about, "content": problem} for status, about in _REFUSALS.items()},
        },
    }
    if route.body is not None:
        operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": refs[route.body]}}}
    return operation


def _places(route: Route) -> list[dict[str, Any]]:
    schema = {"type": "string", "minLength": 1}
    names = re.findall(r"\{(\w+)\}", route.path)
    return [{"name": name, "in": "path", "required": True, "schema": schema} for name in names]


def _parameters(query: type[msgspec.Struct] | None) -> list[dict[str, Any]]:
    """A parameter for each field; one that takes several values is repeated."""
    if query is None:
        return []
    _, components = msgspec.json.schema_components([query], ref_template=_REFS)
    properties: dict[str, Any] = components[query.__name__]["properties"]
    return [{"name": name, "in": "query", "schema": _present(schema)} for name, schema in properties.items()]


def _present(schema: dict[str, Any]) -> dict[str, Any]:
    """A query cannot say null: it says nothing."""
    given = [each for each in schema.get("anyOf", ()) if each != {"type": "null"}]
    return dict(given[0]) if len(given) == 1 else schema
