"""Parsing a request: its query and its body as values."""

import re
from collections.abc import Callable
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl

import msgspec
import msgspec.inspect

from satchel.server.http.problems import RefusedError
from satchel.server.http.routes import ROUTES, Route
from satchel.server.jsonrpc import repeated_key, repeated_key_fault

__all__ = ["parse_request"]

MAX_PARAMETERS = 200
_WHOLE = re.compile(r"-?[0-9]{1,18}")
_Read = Callable[[str], Any]

_DECODERS = {route.body: msgspec.json.Decoder(route.body) for route in ROUTES if route.body is not None}


def _parameter_reader(field: msgspec.inspect.Field) -> _Read:
    """Return the function that converts the text of a parameter; invalid text is left for validation to reject."""
    kind = _plain(field.type)
    kinds = tuple(map(_plain, kind.types)) if isinstance(kind, msgspec.inspect.UnionType) else (kind,)
    if any(isinstance(each, msgspec.inspect.IntType) for each in kinds):
        return _number
    if any(isinstance(each, msgspec.inspect.DictType) for each in kinds):
        return _object
    return _truth if any(isinstance(each, msgspec.inspect.BoolType) for each in kinds) else str


def _plain(kind: msgspec.inspect.Type) -> msgspec.inspect.Type:
    return kind.type if isinstance(kind, msgspec.inspect.Metadata) else kind


def _object(words: str) -> Any:
    try:
        return msgspec.json.decode(words)
    except (msgspec.DecodeError, RecursionError):
        return words


def _number(words: str) -> int | str:
    return int(words) if _WHOLE.fullmatch(words) else words


def _truth(words: str) -> bool | str:
    return {"true": True, "false": False}.get(words, words)


_READERS = {
    query: {field.encode_name: _parameter_reader(field) for field in msgspec.inspect.type_info(query).fields}  # type: ignore[attr-defined]
    for query in {route.query for route in ROUTES if route.query is not None}
}
_REPEATED = {
    query: {field.encode_name for field in msgspec.structs.fields(query) if isinstance(field.default, tuple)}
    for query in _READERS
}
for _query in _READERS:
    # Registers the type with msgspec before threads start; queries are converted without a decoder.
    msgspec.json.Decoder(_query)


def parse_request(route: Route, query_string: bytes, content_type: str, body: bytes) -> tuple[Any, Any]:
    """Return the query and the body as values; None where the route has none."""
    return _query_of(route, query_string), _body_of(route, content_type, body)


def _query_of(route: Route, query_string: bytes) -> Any:
    try:
        pairs = parse_qsl(
            query_string.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=MAX_PARAMETERS
        )
    except ValueError as error:
        raise _bad_query(f"the query cannot be read: {error}") from None
    if route.query is None:
        if pairs:
            raise _bad_query(f"unknown parameter {pairs[0][0][:40]!r}; this operation takes its fields in the body")
        return None
    repeated, readers = _REPEATED[route.query], _READERS[route.query]
    values: dict[str, Any] = {}
    for name, value in pairs:
        if name not in readers:
            raise _bad_query(f"unknown parameter {name[:40]!r}; known: {', '.join(sorted(readers))}")
        if name in repeated:
            values.setdefault(name, []).append(value)
        elif name in values:
            raise _bad_query(f"the parameter {name!r} is given twice")
        else:
            values[name] = readers[name](value)
            if isinstance(values[name], dict) and (key := repeated_key(value)) is not None:
                raise _bad_query(f"in the parameter {name!r}, {repeated_key_fault(key)}")
    try:
        return msgspec.convert(values, route.query)
    except msgspec.ValidationError as error:
        raise RefusedError(
            HTTPStatus.UNPROCESSABLE_ENTITY, "invalid-query", f"the query is invalid: {error}"
        ) from error


def _body_of(route: Route, content_type: str, body: bytes) -> Any:
    if route.body is None:
        if body.strip():
            raise RefusedError(HTTPStatus.BAD_REQUEST, "unexpected-body", f"{route.operation} takes no body")
        return None
    media, _, rest = content_type.partition(";")
    charset = rest.strip().lower().removeprefix("charset=").strip('"')
    if media.strip().lower() != "application/json" or charset not in ("", "utf-8", "utf8"):
        raise RefusedError(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
            "unknown-media-type",
            "the body must be JSON; send Content-Type: application/json",
        )
    try:
        value = _DECODERS[route.body].decode(body)
    except msgspec.ValidationError as error:
        raise RefusedError(
            HTTPStatus.UNPROCESSABLE_ENTITY, "invalid-body", f"the body is invalid: {error}"
        ) from error
    except (ValueError, RecursionError) as error:
        raise RefusedError(HTTPStatus.BAD_REQUEST, "malformed-body", f"the body is not JSON: {error}") from error
    if (key := repeated_key(body)) is not None:
        raise RefusedError(HTTPStatus.BAD_REQUEST, "malformed-body", f"in the body, {repeated_key_fault(key)}")
    return value


def _bad_query(detail: str) -> RefusedError:
    return RefusedError(HTTPStatus.BAD_REQUEST, "malformed-query", detail)
