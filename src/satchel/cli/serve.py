"""Server commands: mcp, gateway, serve, and token for the tokens of a service."""

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
    counter_option,
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
@click.option("--text-only", is_flag=True, help="Answer reads with text only, without structured content.")
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
    text_only: bool,
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
    from satchel.server.mcp.catalog import chosen_tools
    from satchel.server.mcp.tool_context import ToolContext
    from satchel.server.recorder import Recorder
    from satchel.server.specs.specs import Specs
    from satchel.session.session import new_session_name

    if most_tokens < 1:
        raise InputError(f"--most-tokens {most_tokens} is too small; give 1 or more")
    chosen = chosen_tools(tools)
    reader = Specs(root, folder=specs)
    if address is None and (token_file is not None or allow_host):
        raise InputError(f"{'--token-file' if token_file else '--allow-host'} needs --http; give that too")
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
                note("waiting for an MCP client on standard input; `satchel mcp install` sets one up, Ctrl-D quits")
            serve_stdio(context, chosen)
        else:
            serve_http(context, chosen, listen, token=token, allowed_hosts=allow_host)


for _command in (install_command, uninstall_command, config_command):
    mcp_command.add_command(_command)


# gateway: other MCP servers behind a token budget

LEAST_PER_CALL = 200


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
    from satchel.session.budget import resolve_budget
    from satchel.session.session import new_session_name

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
            note(f"satchel: {why_not_started(server)}")
        raise SatchelError(why_not_started(servers[-1]))
    if name is not None and not name.strip():
        raise InputError("--session is blank; give a name, or leave it out for a new session")
    budget = resolve_budget(total=total, per_call=per_call, model=model)
    if budget.per_call < LEAST_PER_CALL:
        raise InputError(
            f"--per-call {budget.per_call} is too small for a page and its note; give {LEAST_PER_CALL} or more"
        )
    with open_store_for(db, create=True, counter=counter) as bag:
        session = bag.session(
            name or new_session_name("gateway"),
            budget=budget,
            hints=hints,
            holds="whole",
            mask_results=mask_results,
        )
        if sys.stdin is not None and sys.stdin.isatty():
            note("waiting for an MCP client on standard input; clients start this command themselves, Ctrl-D quits")
        from satchel.server.gateway.stdio import serve_gateway

        code = serve_gateway(servers, session, start_seconds=start_seconds)
    ctx.exit(code)


# serve: the HTTP service for many tenants

_RATE = re.compile(r"([0-9]+(?:\.[0-9]+)?)(?:/s)?")
_SIZE = re.compile(r"([0-9]+)\s*(|[kKmMgG](?:i?[bB])?|[bB])")
_BYTE_UNITS = {"": 1, "b": 1, "k": 1024, "m": 1024**2, "g": 1024**3}
_MOST_BYTES = 1024**3


@click.command("serve")
@click.option(
    "--http",
    "address",
    default="127.0.0.1:8765",
    show_default=True,
    metavar="HOST:PORT",
    help="Address to listen on.",
)
@click.option(
    "--tokens",
    type=click.Path(path_type=Path),
    help="Token file; required unless the address is a loopback address.",
)
@click.option("--org", metavar="NAME", help="Org to serve when there is no token file.")
@click.option("--allow-host", multiple=True, metavar="NAME", help="Accept this Host header too; repeatable.")
@click.option("--rate", default="1000/s", show_default=True, metavar="N/s", help="Rate limit of one token.")
@click.option("--max-body", default="4M", show_default=True, metavar="SIZE", help="Largest request body.")
@click.option("--max-answer", default="16M", show_default=True, metavar="SIZE", help="Largest response to a read.")
@click.option(
    "--threads",
    default=8,
    show_default=True,
    metavar="N",
    help="Calls that run in parallel, at most half of them for one org. Python runs on one core: more than "
    "about 8 make context calls slower. To use several cores, run several processes behind a proxy.",
)
@click.option("--waiting", default=256, show_default=True, metavar="N", help="Calls that may wait for a thread.")
@click.option(
    "--grace",
    default=30,
    show_default=True,
    metavar="SECONDS",
    help="Time for calls in flight to finish at shutdown.",
)
@counter_option
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
    """Serve a store over HTTP: a JSON API at /v1 and the MCP server at /mcp. Tokens separate tenants."""
    from satchel.server.http.application import Limits
    from satchel.server.http.gate import Gate
    from satchel.server.http.serving import serve
    from satchel.server.listening import check_reach, parse_address

    listen = parse_address(address)
    remedy = "give a token file with --tokens (`satchel token create` makes one)"
    check_reach(listen, has_token=tokens is not None, remedy=remedy)
    if tokens is not None and org is not None:
        raise InputError("--org and --tokens cannot be combined, because each token has its own org; give one")
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
        raise InputError(f"--rate {given!r} is not a number of requests per second, such as 100/s")
    return float(found[1])


def _size(option: str, given: str) -> int:
    found = _SIZE.fullmatch(given.strip())
    size = int(found[1]) * _BYTE_UNITS[found[2][:1].lower()] if found else 0
    if not 0 < size <= _MOST_BYTES:
        raise InputError(f"{option} {given!r} is not a size up to 1G, such as 4M")
    return size


# token create, list, revoke: the tokens of a service

_SPAN = re.compile(r"([0-9]{1,6})\s*([mhdwy])")
_TIME_UNITS = {
    "m": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
    "w": timedelta(weeks=1),
    "y": timedelta(days=365),
}

_tokens_option = click.option(
    "--tokens", "path", required=True, type=click.Path(path_type=Path), help="Token file."
)


@click.group("token")
def token_command() -> None:
    """Create, list and revoke tokens for `satchel serve`."""


@token_command.command("create")
@_tokens_option
@click.option("--org", metavar="NAME", help="Org whose memories the token gives access to.")
@click.option("--project", metavar="NAME", help="Limit the token to this project.")
@click.option(
    "--access",
    type=click.Choice(("read", "write", "metrics")),
    required=True,
    help="What the token allows: read, read and write, or /metrics only.",
)
@click.option("--name", metavar="NAME", help="Label, such as ci.")
@click.option("--expires", metavar="SPAN", help="Lifetime, such as 90d or 12h. Default: no expiry.")
def create_command(
    path: Path, org: str | None, project: str | None, access: str, name: str | None, expires: str | None
) -> None:
    """Create a token and print it. It is shown only once, because only its hash is stored."""
    from satchel.server.http.access import Access, add_token, new_token

    if access == "metrics" and (org or project):
        raise InputError("a token for metrics has no org; leave --org and --project out")
    if access != "metrics" and org is None:
        raise InputError(f"a token for {access} needs --org; give the org whose memories it may use")
    given = {"org": org, "project": project, "name": name}
    names = {field: None if value is None else as_name(field, value) for field, value in given.items()}
    token, kept = new_token(access=cast(Access, access), expires_at=_moment(expires), **names)
    add_token(path, kept)
    click.echo(token)
    ending = f"satchel token revoke {kept.id} --tokens {shlex.quote(str(path))}"
    note(f"token {kept.id} for {access}, shown only once; `{ending}` revokes it")


@token_command.command("list")
@_tokens_option
@json_option
def list_command(path: Path, as_json: bool) -> None:
    """List the tokens of a file and what they allow."""
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
    """Revoke a token by its id. A running service rejects it from the next request on."""
    from satchel.server.http.access import parse_token, revoke_token

    # The whole token is accepted too, because it contains its id.
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
        raise InputError(f"--expires {span!r} is not a duration; write it as 90d, 12h, 2w or 1y")
    try:
        return utc_now() + int(found[1]) * _TIME_UNITS[found[2]]
    except OverflowError:
        raise InputError(f"--expires {span!r} is after the year 9999; give a shorter duration") from None
