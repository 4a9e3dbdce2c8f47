# `make docs` writes this file from the signatures of Satchel and Session; do not edit it.

import os
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Literal, Self, TypeVar, Unpack, overload

from satchel.api.filters import Choice, Chosen, When
from satchel.api.satchel import Satchel
from satchel.api.transfer import Imported
from satchel.embed.embedder import Embedder
from satchel.fitting.context import ContextBlock, Frame
from satchel.fitting.context_pack import ContextPack
from satchel.fitting.hits import Hits, Timeline
from satchel.fitting.listing import Detail
from satchel.model.filters import Sort
from satchel.model.memory import (
    Change,
    ChangedFields,
    Draft,
    Forgotten,
    Hit,
    Identifier,
    Memory,
    PlacedFields,
    Relation,
    RelationKind,
    Scope,
)
from satchel.model.packing import Format, PackFormat, Pins, PolicyName, ReceiptEntry
from satchel.session.account import Calibration, SessionState
from satchel.session.budget import Budget
from satchel.session.messages import Provider
from satchel.session.results import Found, History, LedgerEntry, Messages, ReadOptions, ResultOptions, Shown
from satchel.session.session import Hints, Holds, Prepared, Session, ToolAnswer
from satchel.store.contract import Check, Held, LedgerRow, Stats, TurnRow
from satchel.text.tokens import Counter

__all__ = ["AsyncSatchel", "AsyncSession", "Opening", "aopen"]

Result = TypeVar("Result")

def aopen(
    location: str | os.PathLike[str] = ...,
    *,
    counter: str | Counter = ...,
    embedder: str | Embedder | None = None,
    create: bool = True,
    read_db: str | None = None,
    cache_mb: int | None = None,
) -> Opening: ...

class Opening:
    def __await__(self) -> Generator[Any, None, AsyncSatchel]: ...
    async def __aenter__(self) -> AsyncSatchel: ...
    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...

class AsyncSatchel:
    bag: Satchel
    scope: Scope
    counter: Counter
    def __init__(self, bag: Satchel) -> None: ...
    async def __aenter__(self) -> Self: ...
    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...
    async def run(self, work: Callable[[Satchel], Result]) -> Result: ...
    def scoped(
        self,
        *,
        org: str | None = None,
        project: str | None = None,
        user: str | None = None,
        agent: str | None = None,
        session: str | None = None,
    ) -> AsyncSatchel: ...
    async def close(self) -> None: ...
    async def add(self, text: str, **fields: Unpack[PlacedFields]) -> Memory: ...
    async def add_many(self, drafts: Iterable[Draft]) -> list[Memory]: ...
    async def add_messages(
        self,
        messages: Iterable[Any],
        *,
        session: str | None = None,
        at: When | None = None,
        tags: Choice = None,
        source: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        skip: Iterable[str] = ...,
    ) -> list[Memory]: ...
    async def update(self, identifier: Identifier, **changes: Unpack[ChangedFields]) -> Memory: ...
    async def forget(
        self,
        identifiers: Identifier | Iterable[Identifier] | None = None,
        *,
        purge: bool = False,
        everything: bool = False,
        dry_run: bool = False,
        **chosen: Unpack[Chosen],
    ) -> Forgotten: ...
    async def unforget(
        self,
        identifiers: Identifier | Iterable[Identifier] | None = None,
        *,
        at: When | None = None,
    ) -> int: ...
    async def erase(self) -> dict[Held, int]: ...
    async def relate(
        self,
        source: Identifier,
        target: Identifier,
        kind: RelationKind = "related",
        *,
        strength: float = 1.0,
    ) -> Relation: ...
    async def unrelate(self, source: Identifier, target: Identifier, kind: RelationKind | None = None) -> int: ...
    async def search(
        self,
        query: str,
        *,
        limit: int = 10,
        token_budget: int | None = None,
        ended: bool = False,
        detail: Detail = "full",
        format: Literal["text", "json"] = "text",
        explain: bool = False,
        as_of: When | None = None,
        min_relevance: float | None = None,
        **chosen: Unpack[Chosen],
    ) -> Hits: ...
    async def context(
        self,
        query: str | None = None,
        *,
        token_budget: int | None = 2000,
        format: Format = "system_prompt",
        policy: PolicyName = "best",
        pins: Pins = "strict",
        limit: int | None = None,
        detail: Detail = "full",
        ids: bool = False,
        ended: bool = False,
        frame: Frame | None = None,
        explain: bool = False,
        as_of: When | None = None,
        min_relevance: float | None = None,
        **chosen: Unpack[Chosen],
    ) -> ContextBlock: ...
    async def context_pack(
        self,
        query: str | None = None,
        *,
        token_budget: int | None = 2000,
        format: PackFormat = "markdown",
        policy: PolicyName = "best",
        pins: Pins = "strict",
        limit: int | None = None,
        ended: bool = False,
        frame: Frame | None = None,
        as_of: When | None = None,
        min_relevance: float | None = None,
        **chosen: Unpack[Chosen],
    ) -> ContextPack: ...
    async def get(self, identifier: Identifier, *, as_of: When | None = None) -> Memory: ...
    async def recent(
        self,
        *,
        limit: int = 20,
        offset: int = 0,
        sort: Sort = "at",
        pinned: bool = False,
        ended: bool = False,
        as_of: When | None = None,
        **chosen: Unpack[Chosen],
    ) -> list[Memory]: ...
    async def relations(self, identifier: Identifier, *, as_of: When | None = None) -> list[Relation]: ...
    async def similar(self, identifier: Identifier, *, limit: int = 3) -> list[Hit]: ...
    async def timeline(
        self,
        identifier: Identifier,
        *,
        before: int = 5,
        after: int = 5,
        as_of: When | None = None,
    ) -> Timeline: ...
    async def history(self, identifier: Identifier) -> list[Change]: ...
    async def stats(self) -> Stats: ...
    async def projects(self) -> dict[str, int]: ...
    async def tags(self) -> dict[str, int]: ...
    async def short_ids(self, memories: Sequence[Identifier | ReceiptEntry]) -> list[str]: ...
    @overload
    async def export(self, target: None = None, **chosen: Unpack[Chosen]) -> list[bytes]: ...
    @overload
    async def export(self, target: str | os.PathLike[str], **chosen: Unpack[Chosen]) -> int: ...
    async def import_(
        self,
        source: str | os.PathLike[str] | Iterable[bytes],
        *,
        strict: bool = False,
        progress: Callable[[int], None] | None = None,
    ) -> Imported: ...
    async def backup(self, target: str | os.PathLike[str]) -> int: ...
    async def session(
        self,
        name: str,
        *,
        budget: Budget | int | None = None,
        model: str | None = None,
        hints: Hints = "footer",
        holds: Holds | None = None,
        mask_results: bool = False,
    ) -> AsyncSession: ...
    async def sessions(self, *, limit: int = 20) -> list[SessionState]: ...
    async def find_session(self, name: str) -> AsyncSession: ...
    async def forget_session(self, name: str) -> None: ...
    async def reembed(
        self,
        embedder: str | Embedder | None = None,
        *,
        progress: Callable[[int, int], None] | None = None,
    ) -> int: ...
    async def catch_up(self, *, progress: Callable[[int], None] | None = None) -> int: ...
    async def warm_up(self, *, whole: bool = False) -> None: ...
    async def checks(self) -> list[Check]: ...
    async def repair(self) -> list[str]: ...

class AsyncSession:
    session: Session
    name: str
    counter: Counter
    hints: Hints
    def __init__(self, session: Session) -> None: ...
    async def run(self, work: Callable[[Session], Result]) -> Result: ...
    async def record(
        self,
        category: str,
        text: str,
        *,
        name: str | None = None,
        pinned: bool = False,
        remember: bool = False,
    ) -> LedgerEntry: ...
    async def call(self, tool: str, arguments: Any = None, call_id: str | None = None) -> LedgerEntry: ...
    async def result(self, tool: str, output: Any, **options: Unpack[ResultOptions]) -> Shown: ...
    async def prepare(self, tool: str, output: Any, **options: Unpack[ResultOptions]) -> Prepared: ...
    async def answered(self, answers: Sequence[ToolAnswer]) -> None: ...
    async def page(self, cursor: str, **options: Unpack[ReadOptions]) -> Shown: ...
    async def expand(self, handle: str) -> str | bytes: ...
    async def find(self, handle: str, pattern: str, *, start: int = 1, **options: Unpack[ReadOptions]) -> Found: ...
    async def pin(self, handle: str, *, pinned: bool = True) -> LedgerEntry: ...
    async def learn_window(self, window: int | str) -> None: ...
    async def next_turn(self) -> int: ...
    async def allocation(self, *, new_turn: bool = False) -> int: ...
    async def suggest_limit(self, cost_of_one_item: int | str) -> int: ...
    async def state(self) -> SessionState: ...
    async def warning(self) -> str | None: ...
    async def feedback(self, usage: Any) -> Calibration: ...
    async def tool_schema(self, schema: Mapping[str, Any]) -> dict[str, Any]: ...
    async def entries(self) -> list[LedgerEntry]: ...
    async def results(self, *, limit: int = 1000) -> list[LedgerRow]: ...
    async def turns(self) -> list[TurnRow]: ...
    async def history(self, max_tokens: int | None = None) -> History: ...
    async def messages(self, provider: Provider = "anthropic", *, max_tokens: int | None = None) -> Messages: ...
