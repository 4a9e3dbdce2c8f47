"""From a name to a counter: vocabularies, Claude's generations, rules of thumb and model names."""

from satchel.errors import InputError
from satchel.text.tokens.claude import CLAUDE
from satchel.text.tokens.counter import Counter
from satchel.text.tokens.heuristic import HEURISTICS
from satchel.text.tokens.models import COUNTER_OF_MODEL, spelling, without_provider
from satchel.text.tokens.vocabulary import VOCABULARIES

__all__ = ["DEFAULT_COUNTER", "begins_with", "counter", "known_counters"]

DEFAULT_COUNTER = "o200k_base"

_COUNTERS: dict[str, Counter] = {**VOCABULARIES, **CLAUDE, **HEURISTICS}
_BY_SPELLING = {spelling(name): found for name, found in _COUNTERS.items()}
_MODELS = {spelling(model): name for model, name in COUNTER_OF_MODEL.items()}
_LONGEST_FIRST = sorted(_MODELS, key=len, reverse=True)


def counter(name: str | Counter) -> Counter:
    """The counter of this name, or of the model of this name; a counter is given back as it is."""
    if isinstance(name, Counter):
        return name
    if not isinstance(name, str):
        raise InputError(f"counter {name!r} is neither a name nor a Counter")
    found = _BY_SPELLING.get(spelling(name))
    if found is not None:
        return found
    model = spelling(without_provider(name))
    row = next((row for row in _LONGEST_FIRST if begins_with(row, model)), None)
    if row is None:
        raise InputError(_unknown(name, model))
    target = _MODELS[row]
    if target is None:
        raise InputError(
            f"no counter for {name!r}: its vocabulary is none of those Satchel carries; "
            f"choose one yourself, `satchel tokens --all` shows them"
        )
    return _COUNTERS[target]


def known_counters() -> list[str]:
    """The canonical names of all counters, sorted."""
    return sorted(_COUNTERS)


def begins_with(row: str, model: str) -> bool:
    if not model.startswith(row):
        return False
    rest = model[len(row) :]
    # A number or a word goes on to its end: "o1" does not begin "o100", nor "opus" "opuscule".
    return not (rest and rest[0].isalnum() and rest[0].isdigit() == row[-1].isdigit())


def _unknown(name: str, model: str) -> str:
    from difflib import get_close_matches

    names = {*_COUNTERS, *(known for known, target in COUNTER_OF_MODEL.items() if target)}
    near = get_close_matches(model, sorted(names), n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}? " if near else ""
    return f"unknown counter {name!r}; {hint}`satchel tokens --all` shows them"
