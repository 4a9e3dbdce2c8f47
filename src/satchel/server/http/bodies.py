"""The body of a request: read within its size and time, and made into a value with what the query says."""

import re
from collections.abc import Callable
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl

import anyio
import msgspec
import msgspec.inspect
from starlette.datastructures import Headers
from starlette.types import Receive

from satchel.server.http.problems import RefusedError
from satchel.server.http.routes import ROUTES, Route

__all__ = ["Gone", "asked", "check_framing", "read_body"]

MOST_PARAMETERS = 200
_WHOLE = re.compile(r"-?[0-9]{1,18}")
_Read = Callable[[str], Any]

_DECODERS = {route.body: msgspec.json.Decoder(route.body) for route in ROUTES if route.body is not None}


def _said_as(field: msgspec.inspect.Field) -> _Read:
    """How the words of a parameter become a value; what is none of its type is left for that to refuse."""
    kind = field.type
    kinds = kind.types if isinstance(kind, msgspec.inspect.UnionType) else (kind,)
    if any(isinstance(each, msgspec.inspect.IntType) for each in kinds):
        return _number
    return _truth if any(isinstance(each, msgspec.inspect.BoolType) for each in kinds) else str


def _number(words: str) -> int | str:
    return int(words) if _WHOLE.fullmatch(words) else words


def _truth(words: str) -> bool | str:
    return {"true": True, "false": False}.get(words, words)


_READERS = {
    query: {field.name: _said_as(field) for field in msgspec.inspect.type_info(query).fields}  # type: ignore[attr-defined]
    for query in {route.query for route in ROUTES if route.query is not None}
}
_REPEATED = {
    query: {field.name for field in msgspec.structs.fields(query) if isinstance(field.default, tuple)}
    for query in _READERS
}
# A decoder makes its type known before there are threads, also where a query is converted.
_QUERIES = {query: msgspec.json.Decoder(query) for query in _READERS}


class Gone(Exception):  # noqa: N818  # not an error: whoever asked has hung up, and nobody waits for an answer
    """The client left before it had said everything."""


def check_framing(headers: Headers) -> None:
    """A length that is said in two ways may end elsewhere for a proxy than here, with another request behind it."""
    if "content-length" in headers and "transfer-encoding" in headers:
        raise RefusedError(
            HTTPStatus.BAD_REQUEST,
            "malformed-body",
            "the request has a Content-Length and a Transfer-Encoding; send one of them",
            Connection="close",
        )


async def read_body(receive: Receive, headers: Headers, *, most_bytes: int, seconds: float) -> bytes:
    """All of a body, whether its length was announced or not."""
    announced = headers.get("content-length", "0")
    if announced.isdecimal() and int(announced) > most_bytes:
        raise _too_large(most_bytes)
    body = bytearray()
    with anyio.move_on_after(seconds):
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise Gone
            body += message.get("body", b"")
            if len(body) > most_bytes:
                raise _too_large(most_bytes)
            if not message.get("more_body", False):
                return bytes(body)
    raise RefusedError(
        HTTPStatus.REQUEST_TIMEOUT, "slow-body", f"the body did not come within {seconds:g} s", Connection="close"
    )


def asked(route: Route, query_string: bytes, headers: Headers, body: bytes) -> tuple[Any, Any]:
    """The values of the query and of the body, None where a route has none."""
    return _query_of(route, query_string), _body_of(route, headers, body)


def _query_of(route: Route, query_string: bytes) -> Any:
    try:
        pairs = parse_qsl(
            query_string.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=MOST_PARAMETERS
        )
    except ValueError as error:
        raise _bad_query(f"the query cannot be read: {error}") from None
    if route.query is None:
        if pairs:
            raise _bad_query(f"there is no parameter {pairs[0][0][:40]!r}: what is asked stands in the body")
        return None
    repeated, readers = _REPEATED[route.query], _READERS[route.query]
    values: dict[str, Any] = {}
    for name, value in pairs:
        if name not in readers:
            raise _bad_query(f"there is no parameter {name[:40]!r}; there are: {', '.join(sorted(readers))}")
        if name in repeated:
            values.setdefault(name, []).append(value)
        elif name in values:
            raise _bad_query(f"the parameter {name!r} is given twice")
        else:
            values[name] = readers[name](value)
    try:
        return msgspec.convert(values, route.query)
    except msgspec.ValidationError as error:
        raise RefusedError(
            HTTPStatus.UNPROCESSABLE_ENTITY, "invalid-query", f"the query is wrong: {error}"
        ) from error


def _body_of(route: Route, headers: Headers, body: bytes) -> Any:
    if route.body is None:
        if body.strip():
            raise RefusedError(HTTPStatus.BAD_REQUEST, "unexpected-body", f"{route.operation} takes no body")
        return None
    media, _, rest = headers.get("content-type", "").partition(";")
    charset = rest.strip().lower().removeprefix("charset=").strip('"')
    if media.strip().lower() != "application/json" or charset not in ("", "utf-8", "utf8"):
        raise RefusedError(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
            "unknown-media-type",
            "the body is JSON: say Content-Type: application/json",
        )
    try:
        return _DECODERS[route.body].decode(body)
    except msgspec.ValidationError as error:
        raise RefusedError(
            HTTPStatus.UNPROCESSABLE_ENTITY, "invalid-body", f"the body is wrong: {error}"
        ) from error
    except (ValueError, RecursionError) as error:
        raise RefusedError(HTTPStatus.BAD_REQUEST, "malformed-body", f"the body is no JSON: {error}") from error


def _bad_query(detail: str) -> RefusedError:
    return RefusedError(HTTPStatus.BAD_REQUEST, "malformed-query", detail)


def _too_large(most_bytes: int) -> RefusedError:
    # The line stays open and the rest is thrown away for a while: who is hung up on while sending reads no answer.
    detail = f"the body has more than {most_bytes:,} bytes"
    return RefusedError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "large-body", detail)
