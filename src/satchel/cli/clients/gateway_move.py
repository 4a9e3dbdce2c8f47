"""Moving a client's servers behind the gateway and back: edits of the client's file and of Satchel's."""

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
from satchel.cli.clients.config_file import (
    Change,
    carry_out,
    content_of,
    missing_folders,
    new_backup,
    planned,
    replaced,
)
from satchel.cli.clients.entry import Edited, Listed, Region, What, satchel_entry, words_of_satchel
from satchel.cli.clients.receipt import Receipts
from satchel.errors import InputError, SatchelError
from satchel.model.patterns import lazy_pattern

__all__ = [
    "GATEWAY",
    "GatewayFile",
    "GatewayMove",
    "Moved",
    "Origin",
    "Restored",
    "Runnable",
    "gateway_file_path",
    "move_behind_gateway",
    "newest_backup",
    "read_gateway_file",
    "rename_to_backup",
    "restore_servers",
    "runnable",
    "write_gateway_file",
]


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    """Where servers were moved from: the file, the text of each, and the part of the file they were in."""

    file: str
    sources: dict[str, str]
    before: str
    after: str
    # Variables of the client's environment that Codex must pass on to the gateway.
    variables: tuple[str, ...] = ()

    @property
    def region(self) -> Region:
        return Region(self.before, self.after)


class GatewayFile(msgspec.Struct, frozen=True, kw_only=True):
    """The gateway's configuration file. The gateway itself reads only the servers."""

    servers: dict[str, dict[str, Any]] = msgspec.field(name="mcpServers")
    origin: Origin = msgspec.field(name="satchel")


_DECODER = msgspec.json.Decoder(GatewayFile)


def gateway_file_path(folder: Path, name: str, client: Client, path: Path, around: Surroundings) -> Path:
    """Return the path of Satchel's file, named after the client and, if that is not the usual one, its file."""
    usual = None
    with contextlib.suppress(InputError):
        # Without the environment, which may point to another place tomorrow.
        usual = os.path.realpath(client.own_file(around._replace(environment={})))
    target = os.path.realpath(path)
    if target == usual:
        return folder / f"gateway-{name}.json"
    return folder / f"gateway-{name}-{hashlib.sha256(os.fsencode(target)).hexdigest()[:12]}.json"


def read_gateway_file(path: Path) -> GatewayFile | None:
    """Read the file; None if it does not exist."""
    content = content_of(path)
    if content is None:
        return None
    try:
        return _DECODER.decode(content)
    except (msgspec.DecodeError, RecursionError) as error:
        raise InputError(f"{path} is invalid: {error}; restore it from a backup beside it") from error


def write_gateway_file(path: Path, held: GatewayFile, *, now: datetime) -> Path | None:
    """Write the file to disk, readable by its owner only, and return the backup of the previous version, if any."""
    content = msgspec.json.format(msgspec.json.encode(held), indent=2) + b"\n"
    before = content_of(path)
    if before == content:
        return None
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        done = replaced(Change(path, before, content, "updated"), now)
        _settle(path.parent)
    except OSError as error:
        raise SatchelError(f"{path} cannot be written: {error.strerror}; nothing was changed") from error
    if done is None:
        raise SatchelError(f"{path} was changed by another program just now; try again")
    return done.backup


def rename_to_backup(path: Path, *, now: datetime) -> Path | None:
    """Rename the file to a backup, so that nothing is lost; returns its path, or None if there is no file."""
    if not path.exists():
        return None
    try:
        descriptor, backup = new_backup(path, now)
        os.close(descriptor)
        path.replace(backup)
    except OSError as error:
        raise SatchelError(f"{path} is no longer needed but cannot be renamed: {error.strerror}") from error
    return backup


def _remove(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise SatchelError(f"{path} is no longer needed but cannot be removed: {error.strerror}") from error


def newest_backup(path: Path) -> Path | None:
    """Return the newest backup."""
    found = [(each, each.stat()) for each in path.parent.glob(f"{path.name}.satchel-backup-*")]
    # An empty backup is left over from a write that failed.
    return max((each for each in found if each[1].st_size), key=lambda each: each[1].st_mtime_ns, default=(None,))[
        0
    ]


def _settle(folder: Path) -> None:
    """Sync the folder to disk, so that a power failure cannot keep the client's change without Satchel's file."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


# Converting a client's entry for the gateway, and which servers only the client can run


_WEB_TYPES = ("http", "streamable-http", "streamableHttp", "streamable_http")
# A server with one of these needs it, but the gateway does not support it.
_NEEDS = ("envFile", "headersHelper", "oauth", "auth", "authProviderType", "sandboxEnabled")
# Tools that a user enabled or disabled; the gateway respects them.
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
_NONE = lazy_pattern(r"(?!)")
_EDITORS = lazy_pattern(r"\$\{(?:input|config|command):[^}]*\}")
_EVERY_OF_OURS = lazy_pattern(r"\$\{(?:[A-Za-z_][A-Za-z0-9_]*(?::-[^}]*)?|(?:env|input|config|command):[^}]*)\}")
# By the variables a client resolves: patterns that only it resolves, and patterns that only the gateway would.
_VARIABLES = {
    "none": (_NONE, _EVERY_OF_OURS),
    "environment": (_NONE, _EDITORS),
    "braces": (re.compile(r"\{(?:env|file):[^}]*\}"), _EVERY_OF_OURS),
    "editor": (re.compile(r"\$\{(?!env:[A-Za-z_][A-Za-z0-9_]*\})[^}]*\}"), _NONE),
    # Gemini CLI removes variables that look like secrets, so the gateway may not have them.
    "kept": (re.compile(r"\$(?:[A-Za-z_][A-Za-z0-9_]*|\{[^}]*\})"), _NONE),
}


class Runnable(NamedTuple):
    """A server in the gateway's form, the keys that it ignores, and the client's variables that it needs."""

    server: dict[str, Any]
    unused: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()


class _UnknownShapeError(Exception):
    """An entry has something that the gateway does not support."""


def runnable(client: Client, value: Any) -> Runnable | str:
    """Convert an entry for the gateway, or return the reason why the gateway cannot run it."""
    if not isinstance(value, dict):
        return "it is not an object with a command or a url"
    value = _common_form(client, value)
    if value.get("disabled") is True or value.get("enabled") is False:
        return "it is disabled"
    for key in _NEEDS:
        if value.get(key):
            return f"it needs {key}, which the gateway does not support"
    known = _USED_IN_TOML if client.format == "toml" else _USED
    used = {key: each for key, each in value.items() if key in known}
    try:
        _check_variables(client, used)
        server, variables = _runnable_server(client, used)
        for key, ours in (_CHOSEN_IN_TOML if client.format == "toml" else _CHOSEN).items():
            if used.get(key) is not None:
                server[ours] = _words(used, key)
    except _UnknownShapeError as error:
        return str(error)
    unused = tuple(key for key in value if key not in known and key not in ("enabled", "disabled"))
    return Runnable(server, unused, tuple(dict.fromkeys(variables)))


def _common_form(client: Client, value: dict[str, Any]) -> dict[str, Any]:
    """Return an entry with the names of fields that most clients use."""
    names = {"serverUrl": "url"} if client.url_key == "serverUrl" else {}
    if client.command_list:
        names["environment"] = "env"
    value = {names.get(key, key): each for key, each in value.items()}
    if client.command_list:
        value["type"] = {"local": "stdio", "remote": "http"}.get(str(value.get("type")), value.get("type"))
        if isinstance(value.get("command"), list) and value["command"]:
            value["command"], *value["args"] = value["command"]
    return value


def _runnable_server(client: Client, value: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    kind = value.get("type")
    url = value.get("url") or value.get("httpUrl")
    command = value.get("command")
    if kind == "sse":
        raise _UnknownShapeError("its type is sse, which the gateway does not support")
    if kind not in (None, "stdio", *_WEB_TYPES):
        raise _UnknownShapeError(f"its type {shortened(kind)} is unknown")
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
        "it has no command or url" if kind is None else f"it has no command or url that fits its type {kind}"
    )


def _check_not_sse(client: Client, value: Mapping[str, Any]) -> None:
    """Without a type, clients try one transport and then the other."""
    if value.get("type") is not None or value.get("httpUrl"):
        return
    try:
        path = urlsplit(_text(value, "url")).path
    except ValueError:
        raise _UnknownShapeError("its url is not an HTTP URL") from None
    if path.rstrip("/").endswith("/sse"):
        raise _UnknownShapeError("its url ends in /sse, which the gateway does not support")
    if client.url_is_sse:
        remedy = "use httpUrl instead" if client.url_key == "httpUrl" else "give it a type"
        raise _UnknownShapeError(f"{client.title} may use sse for a url without a type; {remedy}")


def _headers(value: Mapping[str, Any]) -> tuple[dict[str, str], list[str]]:
    """Return the literal headers, and the headers that Codex takes from variables."""
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
    """Return the variables that Codex passes on to a server; each is a name or a table with one."""
    found = value.get("env_vars") or []
    if not isinstance(found, list):
        raise _UnknownShapeError("its env_vars is not a list")
    names = []
    for each in found:
        name = each.get("name") if isinstance(each, dict) and each.get("source") in (None, "local") else each
        if not isinstance(name, str):
            raise _UnknownShapeError("its env_vars is not a list of names")
        names.append(name)
    return names


def _text(value: Mapping[str, Any], key: str) -> str:
    text = value[key]
    if not isinstance(text, str) or not _is_plain(text):
        raise _UnknownShapeError(f"its {key} is not text")
    return text


def _words(value: Mapping[str, Any], key: str) -> list[str]:
    words = value.get(key) or []
    if not isinstance(words, list) or not all(isinstance(word, str) and _is_plain(word) for word in words):
        raise _UnknownShapeError(f"its {key} is not a list of strings")
    return words


def _texts(value: Mapping[str, Any], key: str) -> dict[str, str]:
    texts = value.get(key) or {}
    if not isinstance(texts, dict):
        raise _UnknownShapeError(f"its {key} is not an object of strings")
    # People write numbers for ports. Booleans are rejected, because clients convert them differently.
    plain = {name: str(text) if type(text) is int else text for name, text in texts.items()}
    if not all(isinstance(text, str) and _is_plain(name + text) for name, text in plain.items()):
        raise _UnknownShapeError(f"its {key} is not an object of strings")
    return plain


def _is_plain(text: str) -> bool:
    """Whether there is neither a lone surrogate (invalid in files) nor a null byte (invalid in command lines)."""
    return "\0" not in text and not any("\ud800" <= char <= "\udfff" for char in text)


def _check_variables(client: Client, value: Any) -> None:
    """Check that the gateway resolves the same variables as the client, from an environment that has them."""
    if isinstance(value, list):
        for each in value:
            _check_variables(client, each)
    elif isinstance(value, dict):
        _check_variables(client, list(value.values()))
    elif isinstance(value, str):
        own, others = _VARIABLES[client.variables]
        for found in own.findall(value):
            raise _UnknownShapeError(f"it has {found}, which only {client.title} resolves")
        for found in others.findall(value):
            raise _UnknownShapeError(
                f"it has {found}, which the gateway would resolve as a variable but {client.title} does not"
            )


# Moving servers behind the gateway, and back

GATEWAY = "satchel-gateway"
_SECRET_LENGTH = 6


class GatewayMove(NamedTuple):
    """A client, its file, and Satchel's file with the moved servers."""

    client: Client
    path: Path
    ours: Path
    receipts: Receipts
    required: bool = False
    """Whether the client shall not start without the gateway."""


class Moved(NamedTuple):
    """The result of moving servers: the new text, which servers were moved now, which were not and why, which
    replaced earlier ones, all servers now behind the gateway, and secrets to mask."""

    text: str
    what: What
    held: GatewayFile | None
    moved: dict[str, Runnable]
    staying: dict[str, str]
    replaced: tuple[str, ...] = ()
    behind: tuple[str, ...] = ()
    secrets: frozenset[str] = frozenset()


class Restored(NamedTuple):
    """The result of restoring servers: the new text, the restored names, the names that other servers use now, the
    ones that were edited in Satchel's file, and secrets to mask."""

    text: str
    what: What
    back: tuple[str, ...] = ()
    taken: tuple[str, ...] = ()
    edited: tuple[str, ...] = ()
    secrets: frozenset[str] = frozenset()


def move_behind_gateway(
    move: GatewayMove, options: Sequence[str] = (), *, only: Sequence[str] = (), now: datetime | None
) -> tuple[Moved, Change]:
    """Move servers to Satchel's file and put the gateway in their place; without `now`, only plan it."""
    found: Moved | None = None
    backup: Path | None = None
    folders: tuple[Path, ...] = ()

    def edit(text: str) -> Edited:
        nonlocal found
        found = _moved(move, text, read_gateway_file(move.ours), options, only)
        return Edited(found.text, found.what)

    def first() -> None:
        # Before the client's file is changed: whatever fails next, each server is in one of the two files.
        nonlocal backup, folders
        if found is not None and found.held is not None and now is not None:
            folders = missing_folders(move.ours)
            backup = write_gateway_file(move.ours, found.held, now=now)

    def then(change: Change) -> None:
        if change.changes:
            # Without a receipt, uninstall leaves the backups; the servers are in Satchel's file in any case.
            with contextlib.suppress(OSError):
                backups = [backup] if backup else []
                # Some servers may have been in Satchel's file only, so the bytes before are not all there was.
                move.receipts.installed(
                    change, GATEWAY, reversible=False, more_backups=backups, more_folders=folders
                )

    if now is None:
        change = planned(move.path, edit)
    else:
        change = carry_out(move.path, edit, now=now, first=first, then=then)
    assert found is not None
    return found, change


def restore_servers(move: GatewayMove, *, now: datetime | None) -> tuple[Restored, Change, list[Path], Path | None]:
    """Restore the servers and remove what the install made; without `now`, only plan it.

    Returns what was removed, and the backup of Satchel's file if that has something that is not in the client's.
    """
    found: Restored | None = None
    backup: Path | None = None
    removed: list[Path] = []

    def edit(text: str) -> Edited:
        nonlocal found
        found = _restored_text(move, text, read_gateway_file(move.ours))
        return Edited(found.text, found.what)

    def adjust(change: Change) -> Change:
        return move.receipts.undone(change, GATEWAY)

    def then(change: Change) -> None:
        nonlocal backup
        assert found is not None
        if now is None:
            return
        if change.changes and not found.taken and not found.edited:
            _remove(move.ours)
            removed.append(move.ours)
        else:
            backup = rename_to_backup(move.ours, now=now)
        removed.extend(move.receipts.uninstalled(change, GATEWAY))

    if now is None:
        change = planned(move.path, edit, adjust=adjust)
    else:
        change = carry_out(move.path, edit, now=now, adjust=adjust, then=then)
    assert found is not None
    return found, change, removed, backup


def _moved(
    move: GatewayMove, text: str, held: GatewayFile | None, options: Sequence[str], only: Sequence[str]
) -> Moved:
    client = move.client
    listed = client.gateway_form.listed(text, key=client.key)
    _check_gateway(move, listed, held)
    _check_names(only, listed, held)
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
    sources = {name: source for name, source in (held.origin.sources if held else {}).items() if name not in there}
    servers = {name: server for name, server in (held.servers if held else {}).items() if name not in there}
    variables = dict.fromkeys(held.origin.variables if held else ())
    for name, answer in moved.items():
        sources[name] = there[name].source
        servers[name] = answer.server
        variables |= dict.fromkeys(answer.variables)
    if not servers and GATEWAY not in there:
        return Moved(text, "unchanged", None, {}, staying)
    ours = satchel_entry(GATEWAY, ["--config", str(move.ours), *options], subcommand="gateway")
    entry = client.fields(ours, required=move.required)
    if variables:
        entry = entry._replace(values={**entry.values, "env_vars": list(variables)})
    after = client.gateway_form.with_gateway(text, list(moved), entry, key=client.key)
    if after == text:
        return Moved(text, "unchanged", None, {}, staying, behind=tuple(sources))
    whole = _restored(client, text, held)[0] if held else text
    region = client.gateway_form.region(whole, after, key=client.key)
    origin = Origin(
        file=str(move.path),
        sources=sources,
        before=region.before,
        after=region.after,
        variables=tuple(variables),
    )
    replaced = _taken(client, listed, held) if held else ()
    secrets = _secrets(each.value for each in listed)
    what: What = "updated" if GATEWAY in there else "added"
    return Moved(
        after, what, GatewayFile(servers=servers, origin=origin), moved, staying, replaced, tuple(sources), secrets
    )


def _restored_text(move: GatewayMove, text: str, held: GatewayFile | None) -> Restored:
    client = move.client
    listed = client.gateway_form.listed(text, key=client.key)
    _check_gateway(move, listed, held)
    if held is None:
        return Restored(text, "absent")
    after, taken = _restored(client, text, held)
    before = {each.name for each in listed}
    secrets = _secrets([*(each.value for each in listed), *held.servers.values()])
    back = tuple(name for name in held.origin.sources if name not in before)
    edited = tuple(name for name, server in held.servers.items() if server != _server_now(client, held, name))
    return Restored(after, "removed" if after != text else "absent", back, taken, edited, secrets)


def _restored(client: Client, text: str, held: GatewayFile) -> tuple[str, tuple[str, ...]]:
    """Return the text with the servers restored, exactly as before if possible, and the names others use now."""
    origin = held.origin
    exact = client.gateway_form.region_restored(text, origin.region, origin.sources, GATEWAY, key=client.key)
    if exact is not None:
        return exact, ()
    listed = client.gateway_form.listed(text, key=client.key)
    there = {each.name for each in listed}
    missing = {name: source for name, source in origin.sources.items() if name not in there}
    if missing or GATEWAY in there:
        text = client.gateway_form.with_servers(text, missing, GATEWAY, key=client.key)
    return text, _taken(client, listed, held)


def _taken(client: Client, listed: Sequence[Listed], held: GatewayFile) -> tuple[str, ...]:
    """Return the names of moved servers that other servers in the client's file use now."""
    return tuple(
        each.name
        for each in listed
        if each.name in held.origin.sources and each.value != _value(client, held, each.name)
    )


def _value(client: Client, held: GatewayFile, name: str) -> Any:
    text = client.gateway_form.single_server_file(held.origin.sources[name], key=client.key)
    return client.form.entry_value(text, name, key=client.key)


def _server_now(client: Client, held: GatewayFile, name: str) -> dict[str, Any] | None:
    """Return the form that the gateway would get for a server now."""
    answer = runnable(client, _value(client, held, name)) if name in held.origin.sources else None
    return answer.server if isinstance(answer, Runnable) else None


def _secrets(values: Iterable[Any]) -> frozenset[str]:
    """Return the values of variables and headers, as they may be written: not all of them look like secrets."""
    found = set()
    for value in values:
        for field in ("env", "headers", "http_headers"):
            texts = value.get(field) if isinstance(value, dict) else None
            found |= (
                {text for text in texts.values() if isinstance(text, str)} if isinstance(texts, dict) else set()
            )
    # Masking short values would make the rest unreadable, and secrets are longer.
    long = {text for text in found if len(text) >= _SECRET_LENGTH}
    return frozenset(
        long | {json.dumps(text, ensure_ascii=ascii)[1:-1] for text in long for ascii in (True, False)}
    )


def _is_own(each: Listed) -> bool:
    words = words_of_satchel(each.value)
    return "mcp" in words or "gateway" in words


def _check_gateway(move: GatewayMove, listed: Sequence[Listed], held: GatewayFile | None) -> None:
    """Check that an entry with the gateway's name is the one that Satchel added, and that its file exists."""
    found = next((each for each in listed if each.name == GATEWAY), None)
    if found is None:
        return
    words = words_of_satchel(found.value)
    if "gateway" not in words or str(move.ours) not in words:
        raise InputError(f'the "{GATEWAY}" entry does not use {move.ours}; rename or remove it')
    if held is None:
        copy = newest_backup(move.ours)
        remedy = f"rename {copy} to it" if copy else f"remove the entry with --name {GATEWAY} without --gateway"
        raise InputError(f"{move.ours}, which has the servers behind {GATEWAY}, is missing; {remedy}")


def _check_names(only: Sequence[str], listed: Sequence[Listed], held: GatewayFile | None) -> None:
    own = [each.name for each in listed if _is_own(each)]
    others = [each.name for each in listed if not _is_own(each)]
    for name in only:
        if name in own:
            raise InputError(f"--only {shortened(name)} is Satchel itself, which cannot be behind its own gateway")
        if name not in others and (held is None or name not in held.origin.sources):
            raise InputError(f"there is no server {shortened(name)}; there are: {', '.join(others) or 'none'}")
