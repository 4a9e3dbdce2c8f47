"""A client's servers led through the gateway, and back: what becomes of its file and of ours."""

import contextlib
import hashlib
import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from reprlib import repr as shortened
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import msgspec

from satchel.cli.clients.client import Client, Surroundings
from satchel.cli.clients.config_file import Change, carry_out, content_of, new_backup, planned, replaced
from satchel.cli.clients.entry import Edited, Listed, Stretch, What, satchel_entry, words_of_satchel
from satchel.errors import InputError, SatchelError

__all__ = [
    "GATEWAY",
    "Detour",
    "Holding",
    "Led",
    "Origin",
    "Returned",
    "Runnable",
    "holding_path",
    "lead_back",
    "lead_through",
    "newest_aside",
    "read_holding",
    "runnable",
    "set_aside",
    "write_holding",
]


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    """Where servers were taken from: the file, the text of each, and the stretch they stood in."""

    file: str
    sources: dict[str, str]
    before: str
    after: str
    # Those of the client's environment that Codex has to hand on to the gateway.
    variables: tuple[str, ...] = ()

    @property
    def stretch(self) -> Stretch:
        return Stretch(self.before, self.after)


class Holding(msgspec.Struct, frozen=True, kw_only=True):
    """A gateway's configuration, which looks at the servers alone."""

    servers: dict[str, dict[str, Any]] = msgspec.field(name="mcpServers")
    origin: Origin = msgspec.field(name="satchel")


_DECODER = msgspec.json.Decoder(Holding)


def holding_path(folder: Path, name: str, client: Client, path: Path, around: Surroundings) -> Path:
    """The place of ours: named after the client and, if its file is not the usual one, after that."""
    usual = None
    with contextlib.suppress(InputError):
        # Without the environment, which may name another place tomorrow.
        usual = os.path.realpath(client.own_file(around._replace(environment={})))
    target = os.path.realpath(path)
    if target == usual:
        return folder / f"gateway-{name}.json"
    return folder / f"gateway-{name}-{hashlib.sha256(os.fsencode(target)).hexdigest()[:12]}.json"


def read_holding(path: Path) -> Holding | None:
    """What is held there; None if there is no such file."""
    content = content_of(path)
    if content is None:
        return None
    try:
        return _DECODER.decode(content)
    except (msgspec.DecodeError, RecursionError) as error:
        raise InputError(f"{path} cannot be understood: {error}; restore it from a copy beside it") from error


def write_holding(path: Path, holding: Holding, *, now: datetime) -> None:
    """Write it to the disk, for its owner only; what was there before is kept beside it."""
    content = msgspec.json.format(msgspec.json.encode(holding), indent=2) + b"\n"
    before = content_of(path)
    if before == content:
        return
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        done = replaced(Change(path, before, content, "updated"), now)
        _settle(path.parent)
    except OSError as error:
        raise SatchelError(f"{path} cannot be written: {error.strerror}; nothing was changed") from error
    if done is None:
        raise SatchelError(f"{path} was changed by someone else just now; try again")


def set_aside(path: Path, *, now: datetime) -> Path | None:
    """Give it another name, so that nothing is lost whatever a client writes next; None if it is not there."""
    if not path.exists():
        return None
    try:
        descriptor, aside = new_backup(path, now)
        os.close(descriptor)
        path.replace(aside)
    except OSError as error:
        raise SatchelError(f"{path} is not needed any more and cannot be renamed: {error.strerror}") from error
    return aside


def newest_aside(path: Path) -> Path | None:
    """The last one that was set aside or replaced."""
    found = [(each, each.stat()) for each in path.parent.glob(f"{path.name}.satchel-backup-*")]
    # One that is empty was about to be filled when something went wrong.
    return max((each for each in found if each[1].st_size), key=lambda each: each[1].st_mtime_ns, default=(None,))[
        0
    ]


def _settle(folder: Path) -> None:
    """Have the folder on the disk too, so that no power cut leaves the client's change without ours."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


# What the gateway is told to run in the place of a client, and which servers only the client can run


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
        server, variables = _runnable_server(client, used)
        for key, ours in (_CHOSEN_IN_TOML if client.toml else _CHOSEN).items():
            if used.get(key) is not None:
                server[ours] = _words(used, key)
    except _UnknownShapeError as error:
        return str(error)
    unused = tuple(key for key in value if key not in known and key not in ("enabled", "disabled"))
    return Runnable(server, unused, tuple(dict.fromkeys(variables)))


def _runnable_server(client: Client, value: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
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


# A client's servers through the gateway, and back

GATEWAY = "satchel-gateway"
_SECRET_LENGTH = 6


class Detour(NamedTuple):
    """A client, its file, and ours."""

    client: Client
    path: Path
    ours: Path


class Led(NamedTuple):
    """What leading through makes of a file: the servers that are moved now, those that stay and why, those that
    took the place of others, all that are behind the gateway then, and what of the file nobody should see."""

    text: str
    what: What
    holding: Holding | None
    moved: dict[str, Runnable]
    staying: dict[str, str]
    replaced: tuple[str, ...] = ()
    behind: tuple[str, ...] = ()
    secrets: frozenset[str] = frozenset()


class Returned(NamedTuple):
    """What leading back makes of a file: the names that are back, those that others bear by now, those that were
    edited in our file, and what of the file nobody should see."""

    text: str
    what: What
    back: tuple[str, ...] = ()
    taken: tuple[str, ...] = ()
    edited: tuple[str, ...] = ()
    secrets: frozenset[str] = frozenset()


def lead_through(
    detour: Detour, options: Sequence[str] = (), *, only: Sequence[str] = (), now: datetime | None
) -> tuple[Led, Change]:
    """Move servers to our file and put the gateway in their place; without a time, only find out how."""
    found: Led | None = None

    def edit(text: str) -> Edited:
        nonlocal found
        found = _led(detour, text, read_holding(detour.ours), options, only)
        return Edited(found.text, found.what)

    def first() -> None:
        # Before the client's file is touched: whatever happens next, each server is in one of the two.
        if found is not None and found.holding is not None and now is not None:
            write_holding(detour.ours, found.holding, now=now)

    change = planned(detour.path, edit) if now is None else carry_out(detour.path, edit, now=now, first=first)
    assert found is not None
    return found, change


def lead_back(detour: Detour, *, now: datetime | None) -> tuple[Returned, Change, Path | None]:
    """Put servers back where they were and set our file aside, under the name returned."""
    found: Returned | None = None
    aside: Path | None = None

    def edit(text: str) -> Edited:
        nonlocal found
        found = _returned(detour, text, read_holding(detour.ours))
        return Edited(found.text, found.what)

    def then() -> None:
        nonlocal aside
        aside = set_aside(detour.ours, now=now) if now is not None else None

    change = planned(detour.path, edit) if now is None else carry_out(detour.path, edit, now=now, then=then)
    assert found is not None
    return found, change, aside


def _led(detour: Detour, text: str, holding: Holding | None, options: Sequence[str], only: Sequence[str]) -> Led:
    client = detour.client
    listed = client.form.listed(text, key=client.key)
    _check_gateway(detour, listed, holding)
    _check_names(only, listed, holding)
    moved: dict[str, Runnable] = {}
    staying: dict[str, str] = {}
    for each in listed:
        if (not only or each.name in only) and not _is_own(each):
            answer = each.fixed or runnable(client, each.value)
            if isinstance(answer, str):
                staying[each.name] = answer
            else:
                moved[each.name] = answer
    there = {each.name: each for each in listed}
    sources = {
        name: source for name, source in (holding.origin.sources if holding else {}).items() if name not in there
    }
    servers = {name: server for name, server in (holding.servers if holding else {}).items() if name not in there}
    variables = dict.fromkeys(holding.origin.variables if holding else ())
    for name, answer in moved.items():
        sources[name] = there[name].source
        servers[name] = answer.server
        variables |= dict.fromkeys(answer.variables)
    if not servers and GATEWAY not in there:
        return Led(text, "unchanged", None, {}, staying)
    entry = satchel_entry(GATEWAY, ["--config", str(detour.ours), *options], subcommand="gateway")
    more = {**client.more, **({"env_vars": list(variables)} if variables else {})}
    after = client.form.taken_out(text, list(moved), entry, key=client.key, more=more)
    if after == text:
        return Led(text, "unchanged", None, {}, staying, behind=tuple(sources))
    whole = _restored(client, text, holding)[0] if holding else text
    stretch = client.form.stretch(whole, after, key=client.key)
    origin = Origin(
        file=str(detour.path),
        sources=sources,
        before=stretch.before,
        after=stretch.after,
        variables=tuple(variables),
    )
    replaced = _taken(client, listed, holding) if holding else ()
    secrets = _secrets(each.value for each in listed)
    what: What = "updated" if GATEWAY in there else "added"
    return Led(
        after, what, Holding(servers=servers, origin=origin), moved, staying, replaced, tuple(sources), secrets
    )


def _returned(detour: Detour, text: str, holding: Holding | None) -> Returned:
    client = detour.client
    listed = client.form.listed(text, key=client.key)
    _check_gateway(detour, listed, holding)
    if holding is None:
        return Returned(text, "absent")
    after, taken = _restored(client, text, holding)
    before = {each.name for each in listed}
    secrets = _secrets([*(each.value for each in listed), *holding.servers.values()])
    back = tuple(name for name in holding.origin.sources if name not in before)
    edited = tuple(name for name, server in holding.servers.items() if server != _server_now(client, holding, name))
    return Returned(after, "removed" if after != text else "absent", back, taken, edited, secrets)


def _restored(client: Client, text: str, holding: Holding) -> tuple[str, tuple[str, ...]]:
    """A text with the servers back in it, exactly as it was if it can be; and the names that others bear by now."""
    origin = holding.origin
    exact = client.form.exchanged(text, origin.stretch, origin.sources, GATEWAY, key=client.key)
    if exact is not None:
        return exact, ()
    listed = client.form.listed(text, key=client.key)
    there = {each.name for each in listed}
    missing = {name: source for name, source in origin.sources.items() if name not in there}
    if missing or GATEWAY in there:
        text = client.form.put_back(text, missing, GATEWAY, key=client.key)
    return text, _taken(client, listed, holding)


def _taken(client: Client, listed: Sequence[Listed], holding: Holding) -> tuple[str, ...]:
    """The names of servers that we hold and that the client's file gives to others."""
    return tuple(
        each.name
        for each in listed
        if each.name in holding.origin.sources and each.value != _value(client, holding, each.name)
    )


def _value(client: Client, holding: Holding, name: str) -> Any:
    text = client.form.alone(holding.origin.sources[name], key=client.key)
    return next((each.value for each in client.form.listed(text, key=client.key) if each.name == name), None)


def _server_now(client: Client, holding: Holding, name: str) -> dict[str, Any] | None:
    """What the gateway would be told of a server now."""
    answer = runnable(client, _value(client, holding, name)) if name in holding.origin.sources else None
    return answer.server if isinstance(answer, Runnable) else None


def _secrets(values: Iterable[Any]) -> frozenset[str]:
    """Variables and headers of servers, as they may be written: not all of them look like secrets."""
    found = set()
    for value in values:
        for field in ("env", "headers", "http_headers"):
            texts = value.get(field) if isinstance(value, dict) else None
            found |= (
                {text for text in texts.values() if isinstance(text, str)} if isinstance(texts, dict) else set()
            )
    # What is shorter than any secret would make a riddle of the rest.
    long = {text for text in found if len(text) >= _SECRET_LENGTH}
    return frozenset(
        long | {json.dumps(text, ensure_ascii=ascii)[1:-1] for text in long for ascii in (True, False)}
    )


def _is_own(each: Listed) -> bool:
    words = words_of_satchel(each.value)
    return "mcp" in words or "gateway" in words


def _check_gateway(detour: Detour, listed: Sequence[Listed], holding: Holding | None) -> None:
    """That an entry of the gateway's name is the one that we put there, and has what it needs."""
    found = next((each for each in listed if each.name == GATEWAY), None)
    if found is None:
        return
    words = words_of_satchel(found.value)
    if "gateway" not in words or str(detour.ours) not in words:
        raise InputError(f'the "{GATEWAY}" there does not read {detour.ours}; give it another name, or take it out')
    if holding is None:
        copy = newest_aside(detour.ours)
        remedy = f"rename {copy} to it" if copy else f"take the entry out by --name {GATEWAY} without --gateway"
        raise InputError(f"{detour.ours} is gone, which holds the servers behind {GATEWAY}; {remedy}")


def _check_names(only: Sequence[str], listed: Sequence[Listed], holding: Holding | None) -> None:
    own = [each.name for each in listed if _is_own(each)]
    others = [each.name for each in listed if not _is_own(each)]
    for name in only:
        if name in own:
            raise InputError(f"--only {shortened(name)} is Satchel itself, which does not go behind its gateway")
        if name not in others and (holding is None or name not in holding.origin.sources):
            raise InputError(f"there is no server {shortened(name)}; there are: {', '.join(others) or 'none'}")
