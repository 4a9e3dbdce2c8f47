"""The official client with a real `satchel mcp` process over real pipes, as synchronous calls."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import mcp
from anyio.from_thread import BlockingPortal, start_blocking_portal

from conftest import clean_environment

__all__ = ["LONGEST_WAIT", "Call", "Connection", "Reply", "connected", "parameters"]

LONGEST_WAIT = 60.0

Call = tuple[str, dict[str, Any]]


class Reply(NamedTuple):
    """What a tool answered."""

    text: str
    data: dict[str, Any] | None
    is_error: bool


class Connection:
    """One client and its server, for as long as it is open."""

    def __init__(self, portal: BlockingPortal, client: mcp.Client, errors: Path) -> None:
        self._portal = portal
        self._errors = errors
        self.client = client

    def call(self, tool: str, /, **arguments: Any) -> Reply:
        """One call that is answered."""
        reply = self.attempt(tool, arguments)
        assert not reply.is_error, reply.text
        return reply

    def refusal(self, tool: str, /, **arguments: Any) -> str:
        """What a call is refused with."""
        reply = self.attempt(tool, arguments)
        assert reply.is_error, reply.text
        return reply.text

    def attempt(self, tool: str, arguments: dict[str, Any]) -> Reply:
        return self.attempts([(tool, arguments)])[0]

    def attempts(self, calls: Sequence[Call], *, at_once: int = 1) -> list[Reply]:
        """The answers in the order of the calls, some of which are on their way at the same time."""
        return self._portal.call(_answers, self.client, list(calls), at_once)

    def ask(self, method: str, /, *arguments: Any, **named: Any) -> Any:
        """Any other method of the client, such as `list_tools`."""

        async def asked() -> Any:
            return await getattr(self.client, method)(*arguments, **named)

        return self._portal.call(asked)

    @property
    def errors(self) -> str:
        """What the server has written to standard error so far."""
        return self._errors.read_text("utf-8")


def parameters(folder: Path, *options: str | Path, **environment: str) -> mcp.StdioServerParameters:
    """How `satchel mcp OPTIONS…` is started in a folder, with the store `notes.db` in it."""
    return mcp.StdioServerParameters(
        command=str(Path(sys.executable).with_name("satchel")),
        args=["mcp", *map(str, options)],
        env=clean_environment(folder) | environment,
        cwd=folder,
    )


@contextmanager
def connected(folder: Path, *options: str | Path, mode: Any = "auto", **environment: str) -> Iterator[Connection]:
    """A client of a server of its own; both end with the block."""
    errors = folder / "server.errors"
    with open(errors, "a", encoding="utf-8") as errlog, start_blocking_portal() as portal:
        transport = mcp.stdio_client(parameters(folder, *options, **environment), errlog=errlog)
        client = mcp.Client(transport, read_timeout_seconds=LONGEST_WAIT, mode=mode)
        with portal.wrap_async_context_manager(client):
            yield Connection(portal, client, errors)


async def _answers(client: mcp.Client, calls: list[Call], at_once: int) -> list[Reply]:
    replies: dict[int, Reply] = {}
    waiting = iter(enumerate(calls))

    async def work() -> None:
        for place, (tool, arguments) in waiting:
            result = await client.call_tool(tool, arguments)
            assert len(result.content) == 1
            text = result.content[0].text
            replies[place] = Reply(text, result.structured_content, bool(result.is_error))

    async with anyio.create_task_group() as group:
        for _ in range(at_once):
            group.start_soon(work)
    return [replies[place] for place in range(len(calls))]
