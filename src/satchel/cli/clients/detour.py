"""A client's servers led through the gateway, and back: what becomes of its file and of ours."""

import json
from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path
from reprlib import repr as shortened
from typing import Any, NamedTuple

from satchel.cli.clients.client import Client
from satchel.cli.clients.configuration import Change, carry_out, planned
from satchel.cli.clients.entry import Edited, What, satchel_entry, words_of_satchel
from satchel.cli.clients.holding import Holding, Origin, newest_aside, read_holding, set_aside, write_holding
from satchel.cli.clients.listing import Listed
from satchel.cli.clients.runnable import Runnable, runnable
from satchel.errors import InputError

__all__ = ["GATEWAY", "Detour", "Led", "Returned", "lead_back", "lead_through"]

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
    edited = tuple(name for name, server in holding.servers.items() if server != _server(client, holding, name))
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


def _server(client: Client, holding: Holding, name: str) -> dict[str, Any] | None:
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
