"""What the gateway is told to run in the place of a client, and which servers only the client can."""

import re
from collections.abc import Mapping
from reprlib import repr as shortened
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from satchel.cli.clients.client import Client

__all__ = ["Runnable", "runnable"]

_WEB_TYPES = ("http", "streamable-http", "streamableHttp", "streamable_http")
# A server cannot do without these, and the gateway knows nothing of them.
_NEEDS = ("envFile", "headersHelper", "oauth", "auth", "authProviderType", "sandboxEnabled")
# Tools that a user chose or hid; the gateway keeps to it.
_CHOSEN = {"includeTools": "includeTools", "excludeTools": "excludeTools"}
_CHOSEN_IN_TOML = {"enabled_tools": "includeTools", "disabled_tools": "excludeTools"}
_USED = {"type", "command", "args", "env", "cwd", "url", "httpUrl", "headers", *_CHOSEN}
_USED_IN_TOML = {
    "command",
    "args",
    "env",
    "env_vars",
    "cwd",
    "url",
    "http_headers",
    "env_http_headers",
    "bearer_token_env_var",
    *_CHOSEN_IN_TOML,
}
_NONE = re.compile(r"(?!)")
_EDITORS = re.compile(r"\$\{(?:input|config|command):[^}]*\}")
_EVERY_OF_OURS = re.compile(r"\$\{(?:[A-Za-z_][A-Za-z0-9_]*(?::-[^}]*)?|(?:env|input|config|command):[^}]*)\}")
# By what a client fills in: what only it does, and what only the gateway would.
_VARIABLES = {
    "none": (_NONE, _EVERY_OF_OURS),
    "environment": (_NONE, _EDITORS),
    "editor": (re.compile(r"\$\{(?!env:[A-Za-z_][A-Za-z0-9_]*\})[^}]*\}"), _NONE),
    # Gemini CLI keeps variables that look like secrets from what it starts, so the gateway may not have them.
    "kept": (re.compile(r"\$(?:[A-Za-z_][A-Za-z0-9_]*|\{[^}]*\})"), _NONE),
}


class Runnable(NamedTuple):
    """A server in the gateway's form, the keys it has no use for, and the variables of the client it needs."""

    server: dict[str, Any]
    unused: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()


class _UnknownShapeError(Exception):
    """An entry says something that the gateway cannot be told."""


def runnable(client: Client, value: Any) -> Runnable | str:
    """What the gateway is told of an entry, or why it cannot run it."""
    if not isinstance(value, dict):
        return "it is no object with a command or a url"
    if value.get("disabled") is True or value.get("enabled") is False:
        return "it is disabled"
    for key in _NEEDS:
        if value.get(key):
            return f"it needs {key}, which the gateway does not know"
    known = _USED_IN_TOML if client.toml else _USED
    used = {key: each for key, each in value.items() if key in known}
    try:
        _check_variables(client, used)
        server, variables = _server(client, used)
        for key, ours in (_CHOSEN_IN_TOML if client.toml else _CHOSEN).items():
            if used.get(key) is not None:
                server[ours] = _words(used, key)
    except _UnknownShapeError as error:
        return str(error)
    unused = tuple(key for key in value if key not in known and key not in ("enabled", "disabled"))
    return Runnable(server, unused, tuple(dict.fromkeys(variables)))


def _server(client: Client, value: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    kind = value.get("type")
    url = value.get("url") or value.get("httpUrl")
    command = value.get("command")
    if kind == "sse":
        raise _UnknownShapeError("its type is sse, which the gateway does not speak")
    if kind not in (None, "stdio", *_WEB_TYPES):
        raise _UnknownShapeError(f"its type {shortened(kind)} is not known")
    if command and url:
        raise _UnknownShapeError("it has both a command and a url")
    if command and kind in (None, "stdio"):
        env = _texts(value, "env")
        cwd = {"cwd": _text(value, "cwd")} if value.get("cwd") else {}
        server = {"command": _text(value, "command"), "args": _words(value, "args"), "env": env, **cwd}
        return {key: each for key, each in server.items() if each}, _variables(value)
    if url and kind != "stdio":
        _check_not_sse(client, value)
        headers, variables = _headers(value)
        server = {"type": "http", "url": _text(value, "url" if value.get("url") else "httpUrl"), "headers": headers}
        return {key: each for key, each in server.items() if each}, variables
    raise _UnknownShapeError(
        "it has no command or url" if kind is None else f"it has no fitting address for its type {kind}"
    )


def _check_not_sse(client: Client, value: Mapping[str, Any]) -> None:
    """Without a type, clients try one protocol and then the other."""
    if value.get("type") is not None or value.get("httpUrl"):
        return
    try:
        path = urlsplit(_text(value, "url")).path
    except ValueError:
        raise _UnknownShapeError("its url is no address") from None
    if path.rstrip("/").endswith("/sse"):
        raise _UnknownShapeError("its url ends in /sse, which the gateway does not speak")
    if client.url_is_sse:
        raise _UnknownShapeError(f"a url without a type may be sse to {client.title}; httpUrl would say it is not")


def _headers(value: Mapping[str, Any]) -> tuple[dict[str, str], list[str]]:
    """Those written down, and those that Codex takes from variables."""
    from_variables = _texts(value, "env_http_headers")
    variables = list(from_variables.values())
    headers = _texts(value, "headers") | _texts(value, "http_headers")
    headers |= {name: f"${{{variable}}}" for name, variable in from_variables.items()}
    if value.get("bearer_token_env_var"):
        token = _text(value, "bearer_token_env_var")
        headers["Authorization"] = f"Bearer ${{{token}}}"
        variables.append(token)
    return headers, variables


def _variables(value: Mapping[str, Any]) -> list[str]:
    """Those that Codex hands on to a server, each a name or a table with one."""
    found = value.get("env_vars") or []
    if not isinstance(found, list):
        raise _UnknownShapeError("its env_vars is no list")
    names = []
    for each in found:
        name = each.get("name") if isinstance(each, dict) and each.get("source") in (None, "local") else each
        if not isinstance(name, str):
            raise _UnknownShapeError("its env_vars is no list of names")
        names.append(name)
    return names


def _text(value: Mapping[str, Any], key: str) -> str:
    text = value[key]
    if not isinstance(text, str) or not _is_plain(text):
        raise _UnknownShapeError(f"its {key} is no text")
    return text


def _words(value: Mapping[str, Any], key: str) -> list[str]:
    words = value.get(key) or []
    if not isinstance(words, list) or not all(isinstance(word, str) and _is_plain(word) for word in words):
        raise _UnknownShapeError(f"its {key} is no list of texts")
    return words


def _texts(value: Mapping[str, Any], key: str) -> dict[str, str]:
    texts = value.get(key) or {}
    if not isinstance(texts, dict):
        raise _UnknownShapeError(f"its {key} is no object of texts")
    # A number is what people write for a port; a truth value reads differently to each client.
    plain = {name: str(text) if type(text) is int else text for name, text in texts.items()}
    if not all(isinstance(text, str) and _is_plain(name + text) for name, text in plain.items()):
        raise _UnknownShapeError(f"its {key} is no object of texts")
    return plain


def _is_plain(text: str) -> bool:
    """Neither half a character, which no file can hold, nor a zero byte, which no command line can."""
    return "\0" not in text and not any("\ud800" <= char <= "\udfff" for char in text)


def _check_variables(client: Client, value: Any) -> None:
    """That the gateway fills in the same variables as the client, from an environment that has them."""
    if isinstance(value, list):
        for each in value:
            _check_variables(client, each)
    elif isinstance(value, dict):
        _check_variables(client, list(value.values()))
    elif isinstance(value, str):
        own, others = _VARIABLES[client.variables]
        for found in own.findall(value):
            raise _UnknownShapeError(f"it has {found}, which only {client.title} fills in")
        for found in others.findall(value):
            raise _UnknownShapeError(
                f"it has {found}, which the gateway takes for a variable and {client.title} does not"
            )
