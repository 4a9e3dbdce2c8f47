"""The command that puts a budget in front of other MCP servers."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from satchel.cli.options import open_store_for, store_options
from satchel.cli.output import note
from satchel.errors import InputError, SatchelError

if TYPE_CHECKING:
    from satchel.session.session import Hints

__all__ = ["gateway_command"]

LEAST_PER_CALL = 200


@click.command("gateway")
@click.option(
    "--config",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Servers, as a client's mcpServers names them.",
)
@click.option("--session", "name", metavar="NAME", help="The books to go on with; new ones else.")
@click.option("--total", type=int, metavar="N", help="Tokens of the whole context.")
@click.option("--per-call", type=int, metavar="N", help="The most that one result gets.")
@click.option("--model", metavar="NAME", help="Half the window of this model as the total.")
@click.option(
    "--hints",
    type=click.Choice(("footer", "schema")),
    default="footer",
    show_default=True,
    help="Where it stands what the budget allows; schemas that change cost a prompt's cache.",
)
@click.option(
    "--start-seconds",
    type=click.FloatRange(min=0, max=86_400, min_open=True),
    default=30.0,
    show_default=True,
    metavar="S",
    help="How long a server is waited for.",
)
@click.option("--name", "server_name", metavar="NAME", help="What the server of COMMAND is called.")
@click.option("--counter", metavar="NAME", help="Who counts tokens.")
@store_options
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def gateway_command(
    ctx: click.Context,
    config: Path | None,
    name: str | None,
    total: int | None,
    per_call: int | None,
    model: str | None,
    hints: "Hints",
    start_seconds: float,
    server_name: str | None,
    counter: str | None,
    command: tuple[str, ...],
    db: str | None,
) -> None:
    """Serve the tools of other MCP servers, whose results come in pages within a token budget.

    The servers are those of --config, and the one that `-- COMMAND ARGS…` starts.
    """
    from satchel.server.gateway.servers import check_apart, command_server, is_there, missing, read_servers
    from satchel.session.opening import new_session_name
    from satchel.session.settings import resolve_budget

    if server_name is not None and not command:
        raise InputError("--name is for the server of -- COMMAND ARGS…; give that too")
    if config is None and not command:
        raise InputError("there is no server to put a budget in front of; give --config FILE or -- COMMAND ARGS…")
    servers = [] if config is None else read_servers(config)
    if command:
        servers.append(command_server(command, server_name))
    if not servers:
        raise InputError(f"{config} names no server that is not disabled")
    check_apart(servers)
    if not any(map(is_there, servers)):
        for server in servers[:-1]:
            note(f"satchel: {missing(server)}")
        raise SatchelError(missing(servers[-1]))
    if name is not None and not name.strip():
        raise InputError("--session is blank; name it, or leave it out for a new one")
    budget = resolve_budget(total=total, per_call=per_call, model=model)
    if budget.per_call < LEAST_PER_CALL:
        raise InputError(
            f"{budget.per_call} tokens for one result leave no room for a page and its note; "
            f"give --per-call {LEAST_PER_CALL} or more"
        )
    with open_store_for(db, create=True, counter=counter) as bag:
        session = bag.session(name or new_session_name("gateway"), budget=budget, hints=hints, holds="whole")
        if sys.stdin is not None and sys.stdin.isatty():
            note("this waits for an MCP client, which would start it itself; Ctrl-D ends it")
        from satchel.server.gateway.front import serve_gateway

        code = serve_gateway(servers, session, start_seconds=start_seconds)
    ctx.exit(code)
