"""The command that serves: mcp, and its set-up."""

import contextlib
import sys
from pathlib import Path

import click

from satchel.cli.mcp_setup import config_command, install_command, uninstall_command
from satchel.cli.options import (
    embedder_option,
    open_store_for,
    refuse_options_of_group,
    scope_options,
    store_options,
)
from satchel.cli.output import note
from satchel.errors import InputError

__all__ = ["mcp_command"]


@click.group("mcp", invoke_without_command=True)
@click.option("--http", "address", metavar="HOST:PORT", help="Serve streamable HTTP instead of standard input.")
@click.option(
    "--token-file", type=click.Path(path_type=Path), help="The bearer token for --http; SATCHEL_TOKEN else."
)
@click.option("--allow-host", multiple=True, metavar="NAME", help="A name that --http is reached by; repeatable.")
@click.option(
    "--tools", default="all", show_default=True, metavar="all|core|NAMES", help="Which tools: fewer cost less."
)
@click.option(
    "--most-tokens", default=20_000, show_default=True, metavar="N", help="The longest answer without max_tokens."
)
@click.option("--text-only", is_flag=True, help="No structured content beside the text of what is read.")
@click.option("--root", default=".", type=click.Path(path_type=Path), help="The project whose specs are read.")
@click.option("--specs", default="docs", show_default=True, metavar="FOLDER", help="Where in it they are.")
@click.option("--counter", metavar="NAME", help="Who counts tokens.")
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
    text_only: bool,
    root: Path,
    specs: str,
    counter: str | None,
    scope: dict[str, str | None],
    embedder: str | None,
    db: str | None,
) -> None:
    """Serve memory to an MCP client, over standard input and output. `install` sets a client up."""
    if ctx.invoked_subcommand is not None:
        refuse_options_of_group(ctx)
        return
    from satchel.server.mcp.catalog import chosen_tools
    from satchel.server.mcp.desk import Desk
    from satchel.server.mcp.recorder import Recorder
    from satchel.server.specs.specs import Specs
    from satchel.session.opening import new_session_name

    if most_tokens < 1:
        raise InputError(f"--most-tokens {most_tokens} is too few; give 1 or more")
    chosen = chosen_tools(tools)
    reader = Specs(root, folder=specs)
    if address is None and (token_file is not None or allow_host):
        raise InputError(f"{'--token-file' if token_file else '--allow-host'} is for --http; give that too")
    if address is not None:
        from satchel.server.mcp.web import check_reach, find_token, parse_address, serve_http

        listen, token = parse_address(address), find_token(token_file)
        check_reach(listen, token)
    with (
        open_store_for(db, scope, create=True, counter=counter, embedder=embedder) as bag,
        contextlib.closing(Recorder(bag, scope["session"] or new_session_name("mcp"))) as recorder,
    ):
        desk = Desk(
            bag,
            reader,
            most_tokens=most_tokens,
            remembers_session=address is None,
            text_only=text_only,
            recorder=recorder,
        )
        if address is None:
            from satchel.server.mcp.stdio import serve_stdio

            if sys.stdin is not None and sys.stdin.isatty():
                note("this waits for an MCP client; `satchel mcp install` sets one up, and Ctrl-D ends this")
            serve_stdio(desk, chosen)
        else:
            serve_http(desk, chosen, listen, token=token, allowed_hosts=allow_host)


for _command in (install_command, uninstall_command, config_command):
    mcp_command.add_command(_command)
