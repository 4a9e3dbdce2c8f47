"""Commands that serve: mcp, gateway, serve, and the tokens of a service."""

import contextlib
import re
import shlex
import sys
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from satchel.cli.mcp_setup import config_command, install_command, uninstall_command
from satchel.cli.options import (
    embedder_option,
    json_option,
    open_store_for,
    refuse_options_of_group,
    scope_options,
    store_options,
)
from satchel.cli.output import note
from satchel.errors import InputError, SatchelError
from satchel.model.memory import as_name, utc_now

if TYPE_CHECKING:
    from satchel.session.session import Hints

__all__ = ["gateway_command", "mcp_command", "serve_command", "token_command"]


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
    from satchel.server.mcp.tool_context import ToolContext
    from satchel.server.recorder import Recorder
    from satchel.server.specs.specs import Specs
    from satchel.session.session import new_session_name

    if most_tokens < 1:
        raise InputError(f"--most-tokens {most_tokens} is too few; give 1 or more")
    chosen = chosen_tools(tools)
    reader = Specs(root, folder=specs)
    if address is None and (token_file is not None or allow_host):
        raise InputError(f"{'--token-file' if token_file else '--allow-host'} is for --http; give that too")
    if address is not None:
        from satchel.server.listening import check_reach, parse_address
        from satchel.server.mcp.web import TOKEN_REMEDY, find_token, serve_http

        listen, token = parse_address(address), find_token(token_file)
        check_reach(listen, has_token=token is not None, remedy=TOKEN_REMEDY)
    with (
        open_store_for(db, scope, create=True, counter=counter, embedder=embedder) as bag,
        contextlib.closing(Recorder(bag, scope["session"] or new_session_name("mcp"))) as recorder,
    ):
        context = ToolContext(
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
            serve_stdio(context, chosen)
        else:
            serve_http(context, chosen, listen, token=token, allowed_hosts=allow_host)


for _command in (install_command, uninstall_command, config_command):
    mcp_command.add_command(_command)


# The command that puts a budget in front of other MCP servers

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
    from satchel.server.gateway.servers import (
        can_start,
        check_servers,
        command_server,
        read_servers,
        why_not_started,
    )
    from satchel.session.budget import resolve_budget
    from satchel.session.session import new_session_name

    if server_name is not None and not command:
        raise InputError("--name is for the server of -- COMMAND ARGS…; give that too")
    if config is None and not command:
        raise InputError("there is no server to put a budget in front of; give --config FILE or -- COMMAND ARGS…")
    servers = [] if config is None else read_servers(config)
    if command:
        servers.append(command_server(command, server_name))
    if not servers:
        raise InputError(f"{config} names no server that is not disabled")
    check_servers(servers)
    if not any(map(can_start, servers)):
        for server in servers[:-1]:
            note(f"satchel: {why_not_started(server)}")
        raise SatchelError(why_not_started(servers[-1]))
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
        from satchel.server.gateway.stdio import serve_gateway

        code = serve_gateway(servers, session, start_seconds=start_seconds)
    ctx.exit(code)


# The command that serves many: serve

_RATE = re.compile(r"([0-9]+(?:\.[0-9]+)?)(?:/s)?")
_SIZE = re.compile(r"([0-9]+)\s*(|[kKmMgG](?:i?[bB])?|[bB])")
_BYTE_UNITS = {"": 1, "b": 1, "k": 1024, "m": 1024**2, "g": 1024**3}
_MOST_BYTES = 1024**3


@click.command("serve")
@click.option(
    "--http", "address", default="127.0.0.1:8765", show_default=True, metavar="HOST:PORT", help="Where to listen."
)
@click.option(
    "--tokens", type=click.Path(path_type=Path), help="The file of tokens; needed to listen beyond this machine."
)
@click.option("--org", metavar="NAME", help="Whose memories are served where there are no tokens.")
@click.option("--allow-host", multiple=True, metavar="NAME", help="A name that it is reached by; repeatable.")
@click.option("--rate", default="1000/s", show_default=True, metavar="N/s", help="Requests of one token.")
@click.option("--max-body", default="4M", show_default=True, metavar="SIZE", help="The largest request.")
@click.option(
    "--max-answer", default="16M", show_default=True, metavar="SIZE", help="The largest answer to what reads."
)
@click.option(
    "--threads",
    default=8,
    show_default=True,
    metavar="N",
    help="Calls that run at once, half of them of one org. Python computes in one at a time: more than about 8 "
    "make contexts slower; several processes behind a proxy use several cores.",
)
@click.option("--waiting", default=256, show_default=True, metavar="N", help="Calls that may wait for one.")
@click.option(
    "--grace",
    default=30,
    show_default=True,
    metavar="SECONDS",
    help="How long calls in flight may take at the end.",
)
@click.option("--counter", metavar="NAME", help="Who counts tokens.")
@embedder_option
@store_options
def serve_command(
    address: str,
    tokens: Path | None,
    org: str | None,
    allow_host: tuple[str, ...],
    rate: str,
    max_body: str,
    max_answer: str,
    threads: int,
    waiting: int,
    grace: int,
    counter: str | None,
    embedder: str | None,
    db: str | None,
) -> None:
    """Serve a store over HTTP: a JSON API at /v1 and the MCP server at /mcp, each tenant by its tokens."""
    from satchel.server.http.application import Limits
    from satchel.server.http.gate import Gate
    from satchel.server.http.serving import serve
    from satchel.server.listening import check_reach, parse_address

    listen = parse_address(address)
    remedy = "name a file of tokens with --tokens (`satchel token create` makes one)"
    check_reach(listen, has_token=tokens is not None, remedy=remedy)
    if tokens is not None and org is not None:
        raise InputError("--org is for a service without tokens; each token is bound to an org of its own")
    for name, value, least in (("--threads", threads, 1), ("--waiting", waiting, 0), ("--grace", grace, 1)):
        if not least <= value <= 100_000:
            raise InputError(f"{name} {value} is out of range; give {least} to 100,000")
    limits = Limits(
        rate=_rate(rate),
        most_bytes=_size("--max-body", max_body),
        most_answer=_size("--max-answer", max_answer),
        threads=threads,
        waiting=waiting,
    )
    gate = Gate(tokens, org=org, rate=limits.rate)
    with open_store_for(db, create=True, counter=counter, embedder=embedder) as bag:
        bag.warm_up()
        serve(bag, gate, listen, limits=limits, grace=grace, allowed_hosts=allow_host)


def _rate(given: str) -> float:
    found = _RATE.fullmatch(given.strip())
    if found is None or not 0 < float(found[1]) <= 1e6:
        raise InputError(f"--rate {given!r} is not a number of requests a second, such as 100/s")
    return float(found[1])


def _size(option: str, given: str) -> int:
    found = _SIZE.fullmatch(given.strip())
    size = int(found[1]) * _BYTE_UNITS[found[2][:1].lower()] if found else 0
    if not 0 < size <= _MOST_BYTES:
        raise InputError(f"{option} {given!r} is not a size up to 1G, such as 4M")
    return size


# Commands for the tokens of a service: token create, list, revoke

_SPAN = re.compile(r"([0-9]{1,6})\s*([mhdwy])")
_TIME_UNITS = {
    "m": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
    "w": timedelta(weeks=1),
    "y": timedelta(days=365),
}

_tokens_option = click.option(
    "--tokens", "path", required=True, type=click.Path(path_type=Path), help="The file of tokens."
)


@click.group("token")
def token_command() -> None:
    """Make, list and revoke the tokens of `satchel serve`."""


@token_command.command("create")
@_tokens_option
@click.option("--org", metavar="NAME", help="Whose memories it opens.")
@click.option("--project", metavar="NAME", help="Only this project of theirs.")
@click.option(
    "--access",
    type=click.Choice(("read", "write", "metrics")),
    required=True,
    help="Only to look, also to change, or for /metrics alone.",
)
@click.option("--name", metavar="NAME", help="What it is for, such as ci.")
@click.option("--expires", metavar="SPAN", help="After which it is refused, such as 90d or 12h.")
def create_command(
    path: Path, org: str | None, project: str | None, access: str, name: str | None, expires: str | None
) -> None:
    """Print a new token, once: only its hash is kept."""
    from satchel.server.http.access import Access, add_token, new_token

    if access == "metrics" and (org or project):
        raise InputError("a token for metrics opens no memories; leave --org and --project out")
    if access != "metrics" and org is None:
        raise InputError("a token needs --org, the tenant whose memories it opens")
    given = {"org": org, "project": project, "name": name}
    names = {field: None if value is None else as_name(field, value) for field, value in given.items()}
    token, kept = new_token(access=cast(Access, access), expires_at=_moment(expires), **names)
    add_token(path, kept)
    click.echo(token)
    ending = f"satchel token revoke {kept.id} --tokens {shlex.quote(str(path))}"
    note(f"token {kept.id} for {access}, shown this once; `{ending}` ends it")


@token_command.command("list")
@_tokens_option
@json_option
def list_command(path: Path, as_json: bool) -> None:
    """Name the tokens of a file, with what they open."""
    from satchel.server.http.access import read_tokens

    for token in read_tokens(path):
        facts = {
            "id": token.id,
            "access": token.access,
            "org": token.org,
            "project": token.project,
            "name": token.name,
            "created_at": token.created_at,
            "expires_at": token.expires_at,
        }
        if as_json:
            from satchel.fitting.listing import as_json as written

            click.echo(written(facts))
        else:
            click.echo("  ".join(_shown(name, value) for name, value in facts.items() if value is not None))


@token_command.command("revoke")
@click.argument("identifier", metavar="ID")
@_tokens_option
def revoke_command(identifier: str, path: Path) -> None:
    """End a token, by its id; a running service refuses it from the next request on."""
    from satchel.server.http.access import parse_token, revoke_token

    # The token itself names its id as well.
    revoked = revoke_token(path, parse_token(identifier)[0] or identifier)
    click.echo(f"revoked {revoked.id}")


def _shown(name: str, value: object) -> str:
    from satchel.fitting.listing import clean

    if isinstance(value, datetime):
        return f"{name.removesuffix('_at')} {value:%Y-%m-%d}"
    return clean(str(value)) if name in ("id", "access") else f"{name}={clean(str(value))}"


def _moment(span: str | None) -> datetime | None:
    if span is None:
        return None
    found = _SPAN.fullmatch(span.strip())
    if found is None or not int(found[1]):
        raise InputError(f"--expires {span!r} is not a span of time; write it as 90d, 12h, 2w or 1y")
    try:
        return utc_now() + int(found[1]) * _TIME_UNITS[found[2]]
    except OverflowError:
        raise InputError(f"--expires {span!r} is beyond the year 9999") from None
