"""A real `satchel gateway` in front of test servers, with the official client or a bare pipe."""

import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import mcp
import mcp_types as types
from anyio.from_thread import BlockingPortal, start_blocking_portal

from conftest import clean_environment
from mcp_pipe import LONGEST_WAIT, SATCHEL, Pipe

__all__ = [
    "GatewayClient",
    "config",
    "content_of",
    "gateway_client",
    "gateway_pipe",
    "texts",
    "upstream",
    "wait_until",
]

UPSTREAM = Path(__file__).parents[1] / "gateway_upstream.py"
# The pipe starts `satchel mcp`; what comes behind these two words is ours.
_COMMAND = "import sys; from satchel.cli.app import main; main(['gateway', *sys.argv[3:]])"
_NOTE = ("➡ The rest: ", "📏 ~")


def upstream(*options: str | Path, **entry: Any) -> dict[str, Any]:
    """A test server as a configuration names it."""
    return {"command": sys.executable, "args": [str(UPSTREAM), *map(str, options)], **entry}


def config(folder: Path, **servers: dict[str, Any]) -> Path:
    path = folder / "mcp.json"
    path.write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")
    return path


def gateway_pipe(folder: Path, *options: str | Path, greets: bool = True, **environment: str) -> Pipe:
    """A gateway to which lines are written as they are."""
    return Pipe(folder, *options, python=("-c", _COMMAND), greets=greets, **environment)


class GatewayClient:
    """The official client of a gateway, in plain calls; what it is told meanwhile is kept."""

    def __init__(self, portal: BlockingPortal, errors: Path) -> None:
        self._portal = portal
        self._errors = errors
        self.told: list[Any] = []
        self.client: mcp.Client

    def call(self, tool: str, /, **arguments: Any) -> types.CallToolResult:
        return self.ask("call_tool", tool, arguments)

    def calls(self, calls: Sequence[tuple[str, dict[str, Any]]]) -> list[types.CallToolResult]:
        """All at once; the answers in the order of the calls."""
        answers: dict[int, types.CallToolResult] = {}

        async def one(place: int, tool: str, arguments: dict[str, Any]) -> None:
            answers[place] = await self.client.call_tool(tool, arguments)

        async def all_of_them() -> None:
            async with anyio.create_task_group() as group:
                for place, (tool, arguments) in enumerate(calls):
                    group.start_soon(one, place, tool, arguments)

        self._portal.call(all_of_them)
        return [answers[place] for place in range(len(calls))]

    def ask(self, method: str, /, *arguments: Any, **named: Any) -> Any:
        """Any method of the client."""

        async def asked() -> Any:
            return await getattr(self.client, method)(*arguments, **named)

        return self._portal.call(asked)

    def names(self) -> list[str]:
        return [tool.name for tool in self.ask("list_tools").tools]

    async def hear(self, message: Any) -> None:
        self.told.append(message)

    @property
    def errors(self) -> str:
        return self._errors.read_text("utf-8")


@contextmanager
def gateway_client(folder: Path, *options: str | Path, **handlers: Any) -> Iterator[GatewayClient]:
    """A client of a gateway of its own; both end with the block."""
    errors = folder / "gateway.errors"
    with open(errors, "a", encoding="utf-8") as errlog, start_blocking_portal() as portal:
        parameters = mcp.StdioServerParameters(
            command=str(SATCHEL),
            args=["gateway", *map(str, options)],
            env=clean_environment(folder),
            cwd=folder,
        )
        gateway = GatewayClient(portal, errors)
        gateway.client = mcp.Client(
            mcp.stdio_client(parameters, errlog=errlog),
            read_timeout_seconds=LONGEST_WAIT,
            message_handler=gateway.hear,
            **handlers,
        )
        with portal.wrap_async_context_manager(gateway.client):
            yield gateway
    assert "Traceback" not in errors.read_text("utf-8")


def wait_until(condition: Callable[[], bool]) -> None:
    """For what happens in files and other processes, which tell nobody."""
    end = time.monotonic() + LONGEST_WAIT
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.01)


def texts(result: types.CallToolResult) -> list[str]:
    return [part.text for part in result.content if part.type == "text"]


def content_of(page: str, original: str, at: int) -> str:
    """What a page gives of the original from a place on: all above its note, which begins on a line of its own."""
    ends = [page.rfind(f"\n{start}") + 1 for start in _NOTE if f"\n{start}" in page]
    body = page[: min(ends)]
    return body if original.startswith(body, at) else body.removesuffix("\n")
