"""The command `gateway`: other MCP servers behind a token budget."""

import contextlib
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from satchel.cli.store_options import StoreOpener, cache_folder, counter_option, store_opener, store_options
from satchel.errors import InputError, SatchelError, StoreFullError, StoreReadOnlyError

if TYPE_CHECKING:
    from satchel.session.budget import Budget
    from satchel.session.session import Hints, Session

__all__ = ["gateway_command"]

LEAST_PER_CALL = 200
WAITING = "waiting for an MCP client on standard input; clients start this command themselves, Ctrl-D quits"


@click.command("gateway")
@click.option(
    "--config",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="MCP configuration of a client, with mcpServers.",
)
@click.option("--session", "name", metavar="NAME", help="Session to continue. Default: a new one.")
@click.option("--total", type=int, metavar="N", help="Token budget of the whole context.")
@click.option("--per-call", type=int, metavar="N", help="Token limit of one tool result.")
@click.option("--model", metavar="NAME", help="Use half of this model's context window as --total.")
@click.option(
    "--hints",
    type=click.Choice(("footer", "schema")),
    default="footer",
    show_default=True,
    help="Where to state what the budget allows. Changing schemas invalidate the prompt cache.",
)
@click.option("--mask-results", is_flag=True, help="Mask secrets in results before they are stored and shown.")
@click.option(
    "--start-seconds",
    type=click.FloatRange(min=0, max=86_400, min_open=True),
    default=30.0,
    show_default=True,
    metavar="S",
    help="How long to wait for a server to start.",
)
@click.option(
    "--list-seconds",
    type=click.FloatRange(min=0, max=86_400),
    default=1.0,
    show_default=True,
    metavar="S",
    help="How long a list waits for servers that are still starting and were never seen before. The tools of later "
    "ones are announced.",
)
@click.option("--name", "server_name", metavar="NAME", help="Name of the server that COMMAND starts.")
@counter_option
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
    mask_results: bool,
    start_seconds: float,
    list_seconds: float,
    server_name: str | None,
    counter: str | None,
    command: tuple[str, ...],
    db: str | None,
) -> None:
    """Serve the tools of other MCP servers, with their results in pages within a token budget.

    The servers are those in --config, and the one started by `-- COMMAND ARGS…`.
    """
    from satchel.server.gateway.servers import (
        can_start,
        check_servers,
        command_server,
        read_servers,
        why_not_started,
    )

    if server_name is not None and not command:
        raise InputError("--name needs a server from -- COMMAND ARGS…; give that too")
    if config is None and not command:
        raise InputError("no server is given; give --config FILE or -- COMMAND ARGS…")
    servers = [] if config is None else read_servers(config)
    if command:
        servers.append(command_server(command, server_name))
    if not servers:
        raise InputError(f"{config} has no enabled server; enable one or give -- COMMAND ARGS…")
    check_servers(servers)
    if not any(map(can_start, servers)):
        for server in servers[:-1]:
            print(f"satchel: {why_not_started(server)}", file=sys.stderr)
        raise SatchelError(why_not_started(servers[-1]))
    if name is not None and not name.strip():
        raise InputError("--session is blank; give a name, or leave it out for a new session")
    budget = _budget(total, per_call, model)
    store = store_opener(db, create=True, counter=counter)
    with contextlib.ExitStack() as stack:
        opening = partial(_session, stack, store, name, budget=budget, hints=hints, mask_results=mask_results)
        if sys.stdin is not None and sys.stdin.isatty():
            sys.stderr.write(f"{WAITING}\n")
        from satchel.server.gateway.remembered import Remembered
        from satchel.server.gateway.stdio import serve_gateway

        code = serve_gateway(
            servers,
            opening,
            Remembered(cache_folder(), servers),
            start_seconds=start_seconds,
            list_seconds=list_seconds,
            # With hints in schemas the definitions of tools change from run to run.
            at_once=store.seems_ready() and hints == "footer",
        )
    ctx.exit(code)


def _budget(total: int | None, per_call: int | None, model: str | None) -> "Budget | None":
    """Return the budget that the options give; None if they give none, which then is the default one."""
    if (total, per_call, model) == (None, None, None):
        return None
    from satchel.session.budget import resolve_budget

    budget = resolve_budget(total=total, per_call=per_call, model=model, total_is_real=False)
    if budget.per_call < LEAST_PER_CALL:
        raise InputError(
            f"--per-call {budget.per_call} is too small for a page and its note; give {LEAST_PER_CALL} or more"
        )
    return budget


def _session(
    stack: contextlib.ExitStack, store: StoreOpener, name: str | None, *, budget: "Budget | None", **options: Any
) -> "Session":
    """Open the session of a gateway; in memory if the store has no room, because its servers work without it."""
    from satchel.api.satchel import open as open_bag
    from satchel.cli.output import note
    from satchel.session.budget import resolve_budget
    from satchel.session.session import new_session_name
    from satchel.text.tokens import DEFAULT_COUNTER

    chosen = name or new_session_name("gateway")
    options |= {"budget": budget or resolve_budget(total=None, per_call=None, model=None, total_is_real=False)}
    try:
        bag = stack.enter_context(store())
        return bag.session(chosen, holds="whole", **options)
    except (StoreFullError, StoreReadOnlyError) as error:
        # Standard error may be a file on the same full disk.
        with contextlib.suppress(OSError):
            note(f"satchel: {error}; results are kept in memory and lost when the gateway exits")
    bag = stack.enter_context(open_bag(":memory:", counter=store.counter or DEFAULT_COUNTER, embedder="none"))
    return bag.session(chosen, holds="whole", **options)
