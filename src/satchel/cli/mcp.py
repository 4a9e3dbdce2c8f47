"""The command `mcp`. It loads little before the server answers its client."""

import contextlib
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from satchel.cli.lazy import ModuleCommands
from satchel.cli.store_options import (
    StoreOpener,
    counter_option,
    embedder_option,
    refuse_options_of_group,
    scope_options,
    store_opener,
    store_options,
)
from satchel.errors import InputError
from satchel.model.extras import needs_extra

if TYPE_CHECKING:
    from satchel.server.mcp.stdio import Opened

__all__ = ["mcp_command"]

WAITING = "waiting for an MCP client on standard input; `satchel mcp install` sets one up, Ctrl-D quits"


class McpCommands(ModuleCommands):
    """The commands that set up clients."""

    modules = dict.fromkeys(("config", "install", "uninstall"), "satchel.cli.mcp_setup")


@click.group("mcp", cls=McpCommands, invoke_without_command=True)
@click.option("--http", "address", metavar="HOST:PORT", help="Serve streamable HTTP instead of standard input.")
@click.option(
    "--token-file",
    type=click.Path(path_type=Path),
    help="File with the bearer token for --http. Default: $SATCHEL_TOKEN.",
)
@click.option("--allow-host", multiple=True, metavar="NAME", help="Accept this Host header for --http; repeatable.")
@click.option(
    "--tools",
    default="all",
    show_default=True,
    metavar="all|core|NAMES",
    help="Tools to offer. Fewer tools cost fewer tokens.",
)
@click.option(
    "--most-tokens",
    default=20_000,
    show_default=True,
    metavar="N",
    help="Token limit of answers to calls without max_tokens.",
)
@click.option(
    "--structured",
    is_flag=True,
    help="Answer reads with structured content too, for programs; it counts against max_tokens.",
)
@click.option("--root", default=".", type=click.Path(path_type=Path), help="Project root for the spec tools.")
@click.option(
    "--specs", default="docs", show_default=True, metavar="FOLDER", help="Folder of the spec documents in it."
)
@counter_option
@scope_options
@embedder_option
@store_options
@click.pass_context
def mcp_command(
    ctx: click.Context,
    address: str | None,
    token_file: Path | None,
    allow_host: tuple[str, ...],
    tools: str,
    most_tokens: int,
    structured: bool,
    root: Path,
    specs: str,
    counter: str | None,
    scope: dict[str, str | None],
    embedder: str | None,
    db: str | None,
) -> None:
    """Serve memory to an MCP client over standard input and output. `satchel mcp install` sets up a client."""
    if ctx.invoked_subcommand is not None:
        refuse_options_of_group(ctx)
        return
    from satchel.server.mcp.guide import chosen_names
    from satchel.server.specs.tree import has_artifacts

    if most_tokens < 1:
        raise InputError(f"--most-tokens {most_tokens} is too small; give 1 or more")
    names = chosen_names(tools, specs=has_artifacts(root, specs))
    if address is None and (token_file is not None or allow_host):
        raise InputError(f"{'--token-file' if token_file else '--allow-host'} needs --http; give that too")
    serving = _Serving(
        names,
        store_opener(db, scope, create=True, counter=counter, embedder=embedder),
        session=scope["session"],
        root=root,
        specs=specs,
        most_tokens=most_tokens,
        structured=structured,
    )
    if address is not None:
        _serve_http(serving, address, token_file, allow_host)
        return
    from satchel.server.mcp.stdio import serve_stdio

    if sys.stdin is not None and sys.stdin.isatty():
        sys.stderr.write(f"{WAITING}\n")
    at_once = serving.store.seems_ready()
    ctx.exit(serve_stdio(names, partial(serving.open, one_client=True), at_once=at_once))


class _Serving(NamedTuple):
    """What the server offers, and how its store is opened."""

    names: Sequence[str]
    store: StoreOpener
    session: str | None
    root: Path
    specs: str
    most_tokens: int
    structured: bool

    def open(self, *, one_client: bool) -> "Opened":
        """Load the tools and open the store. Only one client may continue the session that it started."""
        from satchel.server.mcp.catalog import TOOLS
        from satchel.server.mcp.methods import Served
        from satchel.server.mcp.stdio import Opened
        from satchel.server.mcp.tool_context import ToolContext
        from satchel.server.recorder import Recorder
        from satchel.server.specs.specs import Specs

        with contextlib.ExitStack() as stack:
            bag = stack.enter_context(self.store())
            recorder = Recorder(bag, self.session)
            stack.callback(recorder.close)
            context = ToolContext(
                bag,
                Specs(self.root, folder=self.specs),
                most_tokens=self.most_tokens,
                remembers_session=one_client,
                structured=self.structured,
                recorder=recorder,
            )
            return Opened(Served(context, {name: TOOLS[name] for name in self.names}), stack.pop_all())


def _serve_http(serving: _Serving, address: str, token_file: Path | None, allow_host: tuple[str, ...]) -> None:
    with needs_extra("serve", "satchel mcp --http"):
        from satchel.server.listening import check_reach, parse_address
        from satchel.server.mcp.web import TOKEN_REMEDY, find_token, serve_http

    listen, token = parse_address(address), find_token(token_file)
    check_reach(listen, has_token=token is not None, remedy=TOKEN_REMEDY)
    (context, tools), closing = serving.open(one_client=False)
    with closing:
        serve_http(context, tools, listen, token=token, allowed_hosts=allow_host)
