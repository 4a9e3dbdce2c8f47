"""Turn the filter arguments of a call into a `Filter`, and check them."""

import reprlib
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from typing import Any, TypedDict

from satchel.errors import InputError
from satchel.model.checks import check_known
from satchel.model.filters import Filter
from satchel.model.memory import KINDS, STATUSES, TIERS, Draft, Scope, as_name, as_time, utc_now
from satchel.model.metadata import check_metadata, metadata_lines

__all__ = ["Choice", "Chosen", "When", "as_draft", "filter_for"]

Choice = str | Sequence[str] | None
When = datetime | date | str


class Chosen(TypedDict, total=False):
    """Filters that select memories. Several kinds, tiers or statuses mean any of them, several tags all of them.

    `since` and `until` limit the time that a memory is about, both inclusive. They take a date, a datetime, or
    words such as "last month", of which `since` takes the beginning and `until` the end. `metadata` gives keys and
    values that a memory must have in its metadata, all of them: {"pr": 12} does not match "12".
    """

    kind: Choice
    tier: Choice
    tags: Choice
    status: Choice
    since: When | None
    until: When | None
    metadata: Mapping[str, Any] | None


def as_draft(text: str, fields: dict[str, Any]) -> Draft:
    if fields and (unknown := fields.keys() - set(Draft.__struct_fields__)):
        raise InputError(f"unknown field {min(unknown)!r}; known: {', '.join(Draft.__struct_fields__)}")
    return Draft(text, **fields)


def _tags(tags: Choice) -> tuple[str, ...]:
    if tags is not None and not isinstance(tags, str | list | tuple | set | frozenset):
        raise InputError(f"tags must be a string or a list of strings, not {type(tags).__name__}")
    chosen = () if tags is None else (tags,) if isinstance(tags, str) else tags
    return tuple(as_name("tag", tag) for tag in chosen)


def _choices(name: str, value: Choice, known: Sequence[str]) -> tuple[str, ...]:
    if value is not None and not isinstance(value, str | list | tuple | set | frozenset):
        raise InputError(f"{name} must be a string or a list of strings, not {type(value).__name__}")
    chosen = () if value is None else (value,) if isinstance(value, str) else tuple(value)
    for each in chosen:
        check_known(name, each, known)
    return chosen


def filter_for(
    scope: Scope,
    *,
    kind: Choice = None,
    tier: Choice = None,
    tags: Choice = None,
    status: Choice = None,
    since: When | None = None,
    until: When | None = None,
    metadata: Mapping[str, Any] | None = None,
    ids: tuple[str, ...] = (),
    ended: bool = False,
    everything: bool = False,
    as_of: datetime | date | str | None = None,
) -> Filter:
    """Make a filter from the arguments of a call.

    Without a status it selects active memories. Ended memories are included only with `ended`, `everything` or a
    status that implies it. With `as_of`, the filter applies to the state at that moment (`recall.as_of`): words
    such as "last week" count from there, and memories about a later time are left out.
    """
    statuses = _choices("status", status, STATUSES)
    now = utc_now()
    seen_from = None if as_of is None else as_time(as_of, name="as_of")
    first, last = _bounds(since, until, now, seen_from)
    past = everything or ended or not {"active", "pending"}.issuperset(statuses)
    return Filter(
        scope=scope,
        kinds=_choices("kind", kind, KINDS),
        tiers=_choices("tier", tier, TIERS),
        tags=_tags(tags),
        statuses=statuses or (() if everything else ("active",)),
        valid_at=None if past else seen_from or now,
        since=first,
        until=min((each for each in (seen_from, last) if each is not None), default=None),
        metadata=metadata_lines(check_metadata(metadata or {})),
        ids=ids,
    )


def _bounds(
    since: When | None, until: When | None, now: datetime, as_of: datetime | None
) -> tuple[datetime | None, datetime | None]:
    """Return the first and the last moment of a filter; raise an error if nothing can lie between them."""
    if since is None and until is None:
        return None, None
    # Imported here, because most commands name no time.
    from satchel.text.dates import moment

    here = now if as_of is None else as_of
    first = None if since is None else moment(since, here, name="since")
    last = None if until is None else moment(until, here, name="until", end=True)
    if first is not None and as_of is not None and first > as_of:
        raise InputError(f"since {_said(since)} is after as_of {_said(as_of)}; name an earlier time")
    if first is not None and first > now:
        raise InputError(f"since {_said(since)} is in the future; name an earlier time")
    if first is not None and last is not None and first > last:
        raise InputError(f"since {_said(since)} is after until {_said(until)}; swap them, or leave one out")
    return first, last


def _said(when: When | None) -> str:
    return reprlib.repr(when if isinstance(when, str) else str(when))
