"""A budget's numbers from where they are set: the call, the environment, `satchel.toml`, the defaults.

What is nearer to the call wins, number by number. `total` and `model` are two ways to say one thing: the nearest
place that says either decides, and where one place says both, the total does.
"""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from reprlib import repr as shortened
from typing import Any, NamedTuple

import msgspec

from satchel.errors import BudgetError, InputError
from satchel.session.plan import Budget, checked_share, checked_tokens
from satchel.session.windows import context_window

__all__ = ["CONFIG_NAME", "CONFIG_VARIABLE", "SETTINGS", "resolve_budget"]

CONFIG_NAME = "satchel.toml"
CONFIG_VARIABLE = "SATCHEL_CONFIG"
SETTINGS = (*Budget.__struct_fields__, "model")

_PREFIX = "SATCHEL_BUDGET_"
_VARIABLES = {_PREFIX + name.upper(): name for name in SETTINGS}


class _Setting(NamedTuple):
    value: Any
    place: str


_Settings = dict[str, _Setting]


def resolve_budget(
    given: Budget | None = None,
    *,
    model: str | None = None,
    environ: Mapping[str, str] | None = None,
    file: Path | None = None,
    **overrides: Any,
) -> Budget:
    """The budget of a call: its own numbers, else the environment's, else the file's, else the defaults.

    A whole budget that is given stands as it is, but for the numbers given beside it (a model is none: the budget
    has its total); an override that is None counts as not given. `file` is read in place of the one in the user's
    configuration folder.
    """
    called = _from_call({**overrides, "model": model})
    if given is not None:
        return _changed(given, called)
    environ = os.environ if environ is None else environ
    kept = _from_file_of(environ, _config_folder()) if file is None else _from_file(file, required=True)
    return _budget(_over(called, _over(_from_environment(environ), kept)))


def _changed(budget: Budget, called: _Settings) -> Budget:
    numbers = _numbers({name: setting for name, setting in called.items() if name != "model"})
    return msgspec.structs.replace(budget, **numbers) if numbers else budget


def _budget(settings: _Settings) -> Budget:
    try:
        return Budget(**_numbers(settings))
    except BudgetError as error:
        # Each number is right by itself; what does not fit together may come from several places.
        origins = "; ".join(f"{name} is from {setting.place}" for name, setting in sorted(settings.items()))
        raise BudgetError(f"{error} ({origins})") from None


def _numbers(settings: _Settings) -> dict[str, Any]:
    numbers = {name: setting.value for name, setting in settings.items() if name != "model"}
    model = settings.get("model")
    if model is not None and "total" not in numbers:
        try:
            numbers["total"] = context_window(model.value) // 2
        except InputError as error:
            raise InputError(f"{error} (model is from {model.place})") from None
    return numbers


def _over(near: _Settings, far: _Settings) -> _Settings:
    if "total" in near or "model" in near:
        far = {name: setting for name, setting in far.items() if name not in ("total", "model")}
    return {**far, **near}


def _from_call(given: Mapping[str, Any]) -> _Settings:
    return {
        name: _Setting(_checked(name, value, place=f"{name} "), "the call")
        for name, value in given.items()
        if value is not None and _known(name, SETTINGS, place="")
    }


def _from_environment(environ: Mapping[str, str]) -> _Settings:
    found: _Settings = {}
    for variable in sorted(name for name in environ if name.startswith(_PREFIX)):
        text = environ[variable].strip()
        if _known(variable, _VARIABLES, place="") and text:
            name = _VARIABLES[variable]
            value = _fraction(text) if name == "low" else text
            found[name] = _Setting(_checked(name, value, place=f"{variable}="), variable)
    return found


def _from_file_of(environ: Mapping[str, str], folder: Path | None) -> _Settings:
    named = environ.get(CONFIG_VARIABLE, "").strip()
    if named:
        return _from_file(Path(named).expanduser(), required=True, named_by=f"{CONFIG_VARIABLE} names it; ")
    return {} if folder is None else _from_file(folder / CONFIG_NAME, required=False)


def _from_file(path: Path, *, required: bool, named_by: str = "") -> _Settings:
    table = _table(path, required=required, named_by=named_by)
    settings: _Settings = {}
    for name, value in table.items():
        _known(name, SETTINGS, place=f"{path}: [budget] ")
        settings[name] = _Setting(_checked(name, value, place=f"{path}: [budget] {name} = "), str(path))
    return settings


def _table(path: Path, *, required: bool, named_by: str) -> dict[str, Any]:
    import tomllib

    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        if required:
            raise InputError(f"there is no file {path}; {named_by}make it or name another") from None
        return {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not TOML: {error}") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from error
    table = document.get("budget", {})
    if not isinstance(table, dict):
        raise InputError(
            f"{path}: budget = {shortened(table)} is not a table; write [budget] and its settings below it"
        )
    return table


def _checked(name: str, value: Any, *, place: str) -> Any:
    return _CHECKS.get(name, checked_tokens)(place, value)


def _model(place: str, value: object) -> str:
    if not isinstance(value, str):
        raise InputError(f"{place}{shortened(value)} is not the name of a model")
    return value


def _fraction(text: str) -> object:
    try:
        return float(text)
    except ValueError:
        return text  # which the check refuses, with the words that were given


_CHECKS: dict[str, Callable[[str, object], Any]] = {"low": checked_share, "model": _model}


def _known(name: str, names: Mapping[str, str] | tuple[str, ...], *, place: str) -> bool:
    if name in names:
        return True
    from difflib import get_close_matches

    near = get_close_matches(name, list(names), n=1, cutoff=0.6)
    hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(names)}"
    raise InputError(f"{place}{name} is not a setting; {hint}")


def _config_folder() -> Path:
    from platformdirs import user_config_path

    return user_config_path("satchel")
