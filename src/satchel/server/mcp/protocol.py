"""The MCP protocol of one connection, in either of its forms.

Until 2025 a client opens the connection with `initialize`. From 2026 on there is no handshake, and each request
says in its `_meta` which version it has. The first request of a connection decides which form it has.
"""

from collections.abc import Mapping
from typing import Any

from satchel import __version__
from satchel.server.handshake import META, MODERN_VERSIONS, agreed_version
from satchel.server.jsonrpc import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    Message,
    RequestError,
    json_type,
)
from satchel.server.mcp.guide import INSTRUCTIONS
from satchel.server.mcp.methods import Method, needed

__all__ = ["CAPABILITIES", "SERVER", "Connection", "modern_result"]

SERVER = {"name": "satchel", "version": __version__}
CAPABILITIES: Message = {
    "completions": {},
    "prompts": {"listChanged": False},
    "resources": {"listChanged": False, "subscribe": False},
    "tools": {"listChanged": False},
}

UNSUPPORTED_VERSION = -32022
_VERSION, _CLIENT, _CLIENT_CAPABILITIES = (
    META + name for name in ("protocolVersion", "clientInfo", "clientCapabilities")
)
# Results that a client may keep; ours may change with every call.
_CACHEABLE = frozenset(
    {
        "server/discover",
        "tools/list",
        "prompts/list",
        "resources/list",
        "resources/templates/list",
        "resources/read",
    }
)


class Connection:
    """Decides whether a request is served, and adds to its result what the form of the protocol asks for."""

    def __init__(self, methods: Mapping[str, Method]) -> None:
        self._modern: bool | None = None
        self._greeted = False
        self._legacy_methods = {"ping": Method(_ping), "initialize": Method(self._initialize), **methods}
        self._modern_methods = {"server/discover": Method(_discover), **methods}

    def method(self, name: str, params: Message) -> Method:
        """Return how a request is answered; raises `RequestError` if it is not served."""
        enveloped = name != "initialize" and _VERSION in _meta(params)
        if self._modern is None:
            self._modern = enveloped
        if self._modern:
            return self._modern_method(name, params)
        if enveloped:
            raise RequestError(
                INVALID_REQUEST,
                "this connection began with another version of the protocol; open a new one for 2026-07-28",
            )
        method = _known(self._legacy_methods, name)
        _check_meta(params)
        if not self._greeted and name not in ("initialize", "ping"):
            raise RequestError(INVALID_PARAMS, "send initialize first")
        return method

    def _modern_method(self, name: str, params: Message) -> Method:
        if name == "initialize":
            proposed = params.get("protocolVersion")
            requested = {"requested": proposed} if isinstance(proposed, str) else {}
            raise RequestError(
                UNSUPPORTED_VERSION,
                "this connection has the protocol 2026-07-28, which has no initialize; open a new one",
                {"supported": list(MODERN_VERSIONS), **requested},
            )
        _check_envelope(params)
        method = _known(self._modern_methods, name)

        def answer(params: Message) -> Message:
            return modern_result(name, method.answer(params))

        return method._replace(answer=answer)

    def _initialize(self, params: Message) -> Message:
        for name, kind in (("protocolVersion", str), ("capabilities", dict), ("clientInfo", dict)):
            needed(params, name, kind)
        self._greeted = True
        return {
            "protocolVersion": agreed_version(params["protocolVersion"]),
            "capabilities": CAPABILITIES,
            "serverInfo": SERVER,
            "instructions": INSTRUCTIONS,
        }


def _ping(params: Message) -> Message:
    return {}


def _discover(params: Message) -> Message:
    return {
        "supportedVersions": list(MODERN_VERSIONS),
        "capabilities": CAPABILITIES,
        "instructions": INSTRUCTIONS,
    }


def _known(methods: Mapping[str, Method], name: str) -> Method:
    if (found := methods.get(name)) is None:
        raise RequestError(METHOD_NOT_FOUND, f"there is no method {name[:80]!r}", name[:80])
    return found


def _meta(params: Message) -> Mapping[str, Any]:
    meta = params.get("_meta")
    return meta if isinstance(meta, dict) else {}


def _check_meta(params: Message) -> None:
    if not isinstance(meta := params.get("_meta"), dict | None):
        raise RequestError(INVALID_PARAMS, f"_meta must be an object, not {json_type(meta)}")


def _check_envelope(params: Message) -> None:
    """Check what each request of the form without a handshake has in its `_meta`."""
    _check_meta(params)
    meta = _meta(params)
    if missing := [key for key in (_VERSION, _CLIENT_CAPABILITIES) if key not in meta]:
        raise RequestError(INVALID_PARAMS, f"params._meta needs {' and '.join(missing)}")
    version = meta[_VERSION]
    if not isinstance(version, str):
        raise RequestError(INVALID_PARAMS, f"{_VERSION} must be a string, not {json_type(version)}")
    if version not in MODERN_VERSIONS:
        raise RequestError(
            UNSUPPORTED_VERSION,
            "Unsupported protocol version",
            {"supported": list(MODERN_VERSIONS), "requested": version},
        )
    for key, kind in ((_CLIENT_CAPABILITIES, dict), (_CLIENT, dict | None)):
        if not isinstance(value := meta.get(key), kind):
            raise RequestError(INVALID_PARAMS, f"{key} must be an object, not {json_type(value)}")


def modern_result(name: str, result: Message) -> Message:
    """Return the result of a method with what the form of the protocol without a handshake adds."""
    kept = {"ttlMs": 0, "cacheScope": "private"} if name in _CACHEABLE else {}
    return {**result, **kept, "resultType": "complete", "_meta": {META + "serverInfo": SERVER}}
