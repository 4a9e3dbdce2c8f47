"""The table of operations: what each interface offers of the methods of `Satchel`, and where and why it differs.

A row names a method and its command, tool and HTTP operation. Which parameters they take, of which type, with which
default and help text, follows from the method's signature and from `api.parameters`. A row only states exceptions:
a parameter that is left out or has another default there, with the reason. Other names are in `NAMES`.
"""

import inspect
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Literal, NamedTuple, get_args

from satchel.api.parameters import FIELDS, FILTERS, OPTIONS, SCOPES, Parameter, Shape, shape_of
from satchel.api.satchel import Satchel
from satchel.model.scope_fields import SCOPE_FIELDS
from satchel.model.signatures import parameters_of

__all__ = ["NAMES", "OPERATIONS", "Interface", "Offer", "Offered", "Operation", "described", "offered", "operation"]

Interface = Literal["cli", "mcp", "http"]


class Offer(NamedTuple):
    """How one interface offers an operation. What is not named here is as in the Python signature."""

    name: str
    """The command, the tool, or the operation in OpenAPI."""
    without: Mapping[str, tuple[str, ...]] = {}
    """Parameters that are not offered, by the reason."""
    defaults: Mapping[str, tuple[Any, str]] = {}
    """Other defaults here, each with the reason."""
    own: Mapping[str, str] = {}
    """What only this interface takes, and what it is for."""
    scope: tuple[str, ...] = SCOPE_FIELDS
    """The fields of a scope by which a caller chooses a view."""


class Operation(NamedTuple):
    """One row: a method of `Satchel` and how each interface offers it; None where it does not."""

    method: str
    cli: Offer | None = None
    mcp: Offer | None = None
    http: Offer | None = None


class Offered(NamedTuple):
    """A parameter as one interface offers it."""

    name: str
    """Its name on this interface."""
    python_name: str
    type: Any
    default: Any
    """`inspect.Parameter.empty` where it is required."""
    about: Parameter
    positional: bool = False
    """Whether Python takes it by position; a command then has it as an argument."""
    nullable: bool = False
    """Whether None is a value of its own, as for a budget that has no cap."""

    @property
    def required(self) -> bool:
        return self.default is inspect.Parameter.empty

    @property
    def shape(self) -> Shape:
        return shape_of(self.type)


NAMES: Mapping[Interface, Mapping[str, str]] = {
    # An option is given once for each value, and typed often.
    "cli": {"tags": "tag", "token_budget": "tokens", "topic_key": "topic"},
    # The names that models know from other tools.
    "mcp": {
        "token_budget": "max_tokens",
        "detail": "detail_level",
        "identifier": "id",
        "identifiers": "id",
        "source": "id",
    },
    "http": {"identifiers": "ids"},
}
"""Parameters that have another name on an interface, wherever they are offered."""

# Reasons that several rows share.
_COST = "every parameter of a tool costs tokens in every session"
_OBJECT = "takes a Python object or function"
_IN_PATH = "part of the path"
_BY_JSON = "--json says it"
_ONE_SCREEN = "a person reads it on one screen"
_ONE_LOOK = "a model reads the texts it needs with mem_get"
_STORE = {
    "db": "the store to use",
    "json": "print JSON",
}
_EMBEDS = {**_STORE, "embedder": "what makes vectors"}
_FITS = {**_EMBEDS, "counter": "what counts tokens"}
_PAGES = {"cursor": "the next page of a long answer"}
_PROJECT = ("project",)

OPERATIONS: tuple[Operation, ...] = (
    Operation(
        "add",
        cli=Offer(
            "add",
            defaults={"text": (None, "it may come from --file or standard input")},
            own={**_EMBEDS, "file": "read the text from a file", "no_similar": "do not look for similar memories"},
            scope=(),
        ),
        mcp=Offer(
            "mem_save",
            without={
                _COST: (
                    "confidence",
                    "status",
                    "pinned",
                    "at",
                    "valid_from",
                    "invalid_at",
                    "speaker",
                    "source",
                    "ref",
                    "metadata",
                ),
                "the server sets them": ("org", "user", "agent"),
            },
            own={"relate_to": "relations to add in the same write"},
            scope=(),
        ),
        http=Offer("memories.add", own={"similar": "false: do not look for similar memories"}, scope=()),
    ),
    Operation(
        "get",
        cli=Offer("get", own=_STORE),
        mcp=Offer(
            "mem_get",
            without={"id takes several": ("identifier",), _COST: ("as_of",)},
            own={"id": "several memories in one call", "max_tokens": "the budget of the answer", **_PAGES},
            scope=(),
        ),
        http=Offer("memories.get", without={_IN_PATH: ("identifier",)}),
    ),
    Operation(
        "recent",
        cli=Offer("list", own={**_STORE, "detail": "how much of each memory to show"}),
        mcp=Offer(
            "mem_list",
            without={
                _COST: ("sort", "pinned", "ended", "as_of", "tier", "metadata"),
                "cursor says it": ("offset",),
            },
            own={
                "detail_level": "how much of each memory to show",
                "max_tokens": "the budget of the answer",
                **_PAGES,
            },
            scope=_PROJECT,
        ),
        http=Offer("memories.list"),
    ),
    Operation(
        "search",
        cli=Offer(
            "search", without={_BY_JSON: ("format",)}, defaults={"detail": ("standard", _ONE_SCREEN)}, own=_FITS
        ),
        mcp=Offer(
            "mem_search",
            without={_COST: ("tier", "status", "metadata", "ended", "explain"), "answers are text": ("format",)},
            defaults={"detail": ("standard", _ONE_LOOK)},
            own=_PAGES,
            scope=_PROJECT,
        ),
        http=Offer("search"),
    ),
    Operation(
        "context",
        cli=Offer("context", without={_OBJECT: ("frame",)}, own={**_FITS, "plot": "draw where the tokens went"}),
        mcp=Offer(
            "mem_context",
            without={
                _COST: ("tier", "status", "metadata", "ended", "explain", "policy", "pins"),
                "always shown: a model may want to update what it reads": ("ids",),
                "the footer is one": ("frame",),
            },
            defaults={
                "limit": (20, "without a query it lists the newest"),
                "token_budget": (None, "the server's own limit, then pages"),
            },
            own=_PAGES,
            scope=_PROJECT,
        ),
        http=Offer("context", without={_OBJECT: ("frame",)}, own={"receipt": "also return the receipt"}),
    ),
    Operation(
        "context_pack",
        cli=Offer(
            "context-pack",
            without={_OBJECT: ("frame",)},
            defaults={"format": (None, "the name of the output file may say it; else markdown")},
            own={
                **_FITS,
                "explain": "print the receipt",
                "output": "write a file",
                "copy": "put it on the clipboard",
            },
        ),
        mcp=Offer(
            "context_pack",
            without={
                _COST: ("tier", "status", "metadata", "ended", "policy", "pins", "limit", "as_of"),
                "a model pastes markdown": ("format",),
                "the footer is one": ("frame",),
            },
            scope=_PROJECT,
        ),
        http=Offer("pack", without={_OBJECT: ("frame",)}),
    ),
    Operation(
        "update",
        cli=Offer("update", own={**_EMBEDS, "clear": "empty a field"}),
        mcp=Offer(
            "mem_update",
            without={
                _COST: (
                    "confidence",
                    "status",
                    "at",
                    "valid_from",
                    "invalid_at",
                    "speaker",
                    "source",
                    "ref",
                    "metadata",
                )
            },
            own={"clear": "empty a field; an empty value means that none is given"},
            scope=(),
        ),
        http=Offer("memories.update", without={_IN_PATH: ("identifier",)}, scope=()),
    ),
    Operation(
        "forget",
        cli=Offer("forget", without={"--yes says it": ("everything",)}, own={**_STORE, "yes": "do not ask"}),
        mcp=Offer(
            "mem_forget",
            without={
                _COST: ("tier", "status", "metadata"),
                "a model names what to forget": ("everything",),
                "a call by filter without confirm is one": ("dry_run",),
            },
            own={"confirm": "the count that the call without it gave", "undo": "restore what one call forgot"},
            scope=_PROJECT,
        ),
        http=Offer("memories.forget", without={"DELETE /v1/memories/{id} takes one": ("identifiers",)}),
    ),
    Operation("unforget", cli=Offer("unforget", own=_STORE), http=Offer("memories.unforget")),
    Operation(
        "relate",
        cli=Offer("relate", own=_STORE),
        mcp=Offer("mem_relate", without={_COST: ("strength",)}, scope=()),
        http=Offer("relations.add", without={_IN_PATH: ("source",)}, scope=()),
    ),
    Operation(
        "unrelate",
        cli=Offer("unrelate", own=_STORE),
        http=Offer("relations.remove", without={_IN_PATH: ("source", "target")}),
    ),
    Operation("relations", http=Offer("relations.list", without={_IN_PATH: ("identifier",)})),
    Operation(
        "similar",
        cli=Offer("similar", own=_STORE),
        http=Offer("memories.similar", without={_IN_PATH: ("identifier",)}),
    ),
    Operation(
        "timeline",
        cli=Offer("timeline", own={**_STORE, "detail": "how much of each memory to show"}),
        mcp=Offer(
            "mem_timeline",
            without={_COST: ("as_of",)},
            own={
                "detail_level": "how much of each memory to show",
                "max_tokens": "the budget of the answer",
                **_PAGES,
            },
            scope=(),
        ),
        http=Offer("memories.timeline", without={_IN_PATH: ("identifier",)}),
    ),
    Operation(
        "history",
        cli=Offer("history", own=_STORE),
        http=Offer("memories.history", without={_IN_PATH: ("identifier",)}),
    ),
    Operation(
        "export",
        cli=Offer(
            "export", without={"-o says it": ("target",)}, own={"db": _STORE["db"], "output": "write a file"}
        ),
    ),
    Operation(
        "import_",
        cli=Offer("import", without={_OBJECT: ("progress",)}, own=_EMBEDS),
    ),
    Operation("projects", cli=Offer("projects", own=_STORE), http=Offer("projects")),
    Operation("tags", cli=Offer("tags", own=_STORE), http=Offer("tags")),
    Operation(
        "stats",
        cli=Offer("stats", own=_STORE),
        mcp=Offer("mem_stats", own={"max_tokens": "the budget of the answer", **_PAGES}, scope=_PROJECT),
        http=Offer("stats"),
    ),
)
"""Every operation on memories that an interface offers beside Python."""

_BY_METHOD = {each.method: each for each in OPERATIONS}
_WRITES_FIELDS = ("add", "update")


def operation(method: str) -> Operation:
    """Return the row of a method."""
    return _BY_METHOD[method]


@cache
def offered(method: str, interface: Interface) -> tuple[Offered, ...]:
    """Return the parameters that an interface offers of a method, those of its scope last."""
    offer: Offer | None = getattr(_BY_METHOD[method], interface)
    if offer is None:
        raise KeyError(f"{interface} does not offer {method}")
    return tuple(_offered(method, interface, offer))


def _offered(method: str, interface: Interface, offer: Offer) -> Iterator[Offered]:
    left_out = {name for names in offer.without.values() for name in names}
    for name, parameter in parameters_of(getattr(Satchel, method)).items():
        if name in left_out:
            continue
        about = described(method, name)
        default = offer.defaults[name][0] if name in offer.defaults else parameter.default
        type_ = about.type or parameter.annotation
        positional = parameter.kind is parameter.POSITIONAL_OR_KEYWORD and not shape_of(type_).choices
        nullable = type(None) in get_args(parameter.annotation)
        yield Offered(NAMES[interface].get(name, name), name, type_, default, about, positional, nullable)
    for name in offer.scope:
        yield Offered(name, name, SCOPES[name].type, None, SCOPES[name])


def described(method: str, name: str) -> Parameter:
    """Return what the registry says of a method's parameter."""
    fields = FIELDS if method in _WRITES_FIELDS else FILTERS
    for key, group in ((f"{method}.{name}", OPTIONS), (name, fields), (name, OPTIONS), (name, SCOPES)):
        if key in group:
            return group[key]
    raise KeyError(f"api/parameters.py does not describe {name}, a parameter of {method}")
