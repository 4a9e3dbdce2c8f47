"""The async twins of `Satchel` and `Session`: the same methods, each run in a thread."""

import asyncio
import functools
import inspect
import os
from collections.abc import Callable, Generator, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from satchel.api.satchel import Satchel
from satchel.api.satchel import open as open_bag
from satchel.embed.embedder import Embedder
from satchel.model.memory import Scope
from satchel.model.signatures import checked_function
from satchel.session.session import Session
from satchel.store.locations import DEFAULT_STORE
from satchel.text.tokens import DEFAULT_COUNTER, Counter

__all__ = ["NOT_AWAITED", "AsyncSatchel", "AsyncSession", "Opening", "aopen"]

Result = TypeVar("Result")

NOT_AWAITED = frozenset({"scoped", "transaction"})
"""Methods without an awaited twin. A transaction belongs to one thread: use `run`."""


@checked_function
def aopen(
    location: str | os.PathLike[str] = DEFAULT_STORE,
    *,
    counter: str | Counter = DEFAULT_COUNTER,
    embedder: str | Embedder | None = None,
    create: bool = True,
    read_db: str | None = None,
    cache_mb: int | None = None,
) -> "Opening":
    """Open a store as `satchel.open` does, without blocking the event loop.

    The arguments are the same. Use `async with satchel.aopen(…) as bag:`, which closes the store at the end, or
    `bag = await satchel.aopen(…)` and `await bag.close()`.
    """
    return Opening(
        functools.partial(
            open_bag,
            location,
            counter=counter,
            embedder=embedder,
            create=create,
            read_db=read_db,
            cache_mb=cache_mb,
        )
    )


class Opening:
    """What `aopen` returns: await it, or enter it with `async with`, to get an `AsyncSatchel`."""

    def __init__(self, opens: Callable[[], Satchel]) -> None:
        self._opens = opens
        self._bag: AsyncSatchel | None = None

    def __await__(self) -> Generator[Any, None, "AsyncSatchel"]:
        return self._opened().__await__()

    async def __aenter__(self) -> "AsyncSatchel":
        self._bag = await self._opened()
        return self._bag

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._bag is not None:
            await self._bag.__aexit__(kind, error, traceback)

    async def _opened(self) -> "AsyncSatchel":
        return AsyncSatchel(await asyncio.to_thread(self._opens))


class AsyncSatchel:
    """The async twin of `Satchel`: the same methods, each awaited while a thread does it.

    `export` returns a list, since an iterator would read the store in the event loop. `scoped` is not awaited, and
    `transaction` is missing: it belongs to one thread, so use `run`. It is an async context manager.
    """

    def __init__(self, bag: Satchel) -> None:
        self.bag = bag
        """The `Satchel` that does the work."""
        self.scope: Scope = bag.scope
        self.counter: Counter = bag.counter

    def __repr__(self) -> str:
        return f"<Async{repr(self.bag)[1:]}"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await asyncio.to_thread(self.bag.close)

    @functools.wraps(Satchel.scoped)
    def scoped(self, **scope: Any) -> "AsyncSatchel":
        # It reads nothing, so it is not awaited.
        return AsyncSatchel(self.bag.scoped(**scope))

    async def run(self, work: Callable[[Satchel], Result]) -> Result:
        """Do several calls in one thread, such as those of one transaction, and return the result of `work`."""
        return await asyncio.to_thread(work, self.bag)

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Callable[..., Any]: ...


class AsyncSession:
    """The async twin of `Session`: the same methods, each awaited while a thread does it."""

    def __init__(self, session: Session) -> None:
        self.session = session
        """The `Session` that does the work."""
        self.name = session.name
        self.counter = session.counter
        self.hints = session.hints

    def __repr__(self) -> str:
        return f"<Async{repr(self.session)[1:]}"

    async def run(self, work: Callable[[Session], Result]) -> Result:
        """Do several calls in one thread, and return the result of `work`."""
        return await asyncio.to_thread(work, self.session)

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Callable[..., Any]: ...


def _awaited(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    async def twin(self: AsyncSatchel | AsyncSession, *args: Any, **options: Any) -> Any:
        def call(one: Satchel | Session) -> Any:
            result = method(one, *args, **options)
            if isinstance(result, Session):
                return AsyncSession(result)
            return list(result) if isinstance(result, Iterator) else result

        return await self.run(call)

    return twin


for _twin, _one in ((AsyncSatchel, Satchel), (AsyncSession, Session)):
    for _name, _method in inspect.getmembers(_one, inspect.isfunction):
        if not _name.startswith("_") and _name not in NOT_AWAITED:
            setattr(_twin, _name, _awaited(_method))
