"""Server commands: mcp, gateway, serve, and token for the tokens of a service."""

import contextlib
import re
import shlex
import sys
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from satchel.api.satchel import open as open_bag
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
from satchel.errors import InputError, SatchelError, StoreFullError, StoreReadOnlyError
from satchel.model.memory import as_name, utc_now
from satchel.text.tokens import DEFAULT_COUNTER

if TYPE_CHECKING:
    from satchel.server.http.oauth import OAuthSettings
    from satchel.session.session import Hints, Session

Command = TypeVar("Command", bound=Callable[..., Any])

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
    from satchel.server.mcp.catalog import chosen_tools
    from satchel.server.mcp.tool_context import ToolContext
    from satchel.server.recorder import Recorder
    from satchel.server.specs.specs import Specs
    from satchel.session.session import new_session_name

    if most_tokens < 1:
        raise InputError(f"--most-tokens {most_tokens} is too small; give 1 or more")
    reader = Specs(root, folder=specs)
    chosen = chosen_tools(tools, specs=reader.exist())
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
            structured=structured,
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
    budget = resolve_budget(total=total, per_call=per_call, model=model, total_is_real=False)
    if budget.per_call < LEAST_PER_CALL:
        raise InputError(
            f"--per-call {budget.per_call} is too small for a page and its note; give {LEAST_PER_CALL} or more"
        )
    with contextlib.ExitStack() as stack:
        session = _gateway_session(stack, db, counter, name, budget=budget, hints=hints, mask_results=mask_results)
        if sys.stdin is not None and sys.stdin.isatty():
            note("waiting for an MCP client on standard input; clients start this command themselves, Ctrl-D quits")
        from satchel.server.gateway.stdio import serve_gateway

        code = serve_gateway(servers, session, start_seconds=start_seconds)
    ctx.exit(code)


def _gateway_session(
    stack: contextlib.ExitStack, db: str | None, counter: str | None, name: str | None, **options: Any
) -> "Session":
    """Open the session of a gateway; in memory if the store has no room, because its servers work without it."""
    from satchel.session.session import new_session_name

    chosen = name or new_session_name("gateway")
    try:
        bag = stack.enter_context(open_store_for(db, create=True, counter=counter))
        return bag.session(chosen, holds="whole", **options)
    except (StoreFullError, StoreReadOnlyError) as error:
        # Standard error may be a file on the same full disk.
        with contextlib.suppress(OSError):
            note(f"satchel: {error}; results are kept in memory and lost when the gateway exits")
    bag = stack.enter_context(open_bag(":memory:", counter=counter or DEFAULT_COUNTER, embedder="none"))
    return bag.session(chosen, holds="whole", **options)


# serve: the HTTP service for many tenants

_RATE = re.compile(r"([0-9]+(?:\.[0-9]+)?)(?:/s)?")
_SIZE = re.compile(r"([0-9]+)\s*(|[kKmMgG](?:i?[bB])?|[bB])")
_BYTE_UNITS = {"": 1, "b": 1, "k": 1024, "m": 1024**2, "g": 1024**3}
_MOST_BYTES = 1024**3


_OAUTH_OPTIONS = (
    click.option("--oauth-issuer", metavar="URL", help="Accept access tokens (JWT) of this OAuth issuer too."),
    click.option("--oauth-resource", metavar="URL", help="Public URL of /mcp, such as https://memory.example/mcp."),
    click.option(
        "--oauth-audience",
        multiple=True,
        metavar="NAME",
        help="Accepted audience of access tokens; repeatable. Default: the URL of --oauth-resource.",
    ),
    click.option(
        "--oauth-jwks", metavar="URL", help="The issuer's keys. Default: where the issuer's metadata says."
    ),
    click.option("--oauth-org-claim", metavar="NAME", help="Claim with the org of a token.  [default: org]"),
    click.option(
        "--oauth-project-claim", metavar="NAME", help="Claim with the project that a token is limited to."
    ),
    click.option("--oauth-user-claim", metavar="NAME", help="Claim with the user that a token is limited to."),
    click.option("--oauth-read-scope", metavar="NAME", help="Scope that allows reading.  [default: satchel:read]"),
    click.option(
        "--oauth-write-scope",
        metavar="NAME",
        help="Scope that allows reading and writing.  [default: satchel:write]",
    ),
)


def _oauth_options(command: Command) -> Command:
    for option in reversed(_OAUTH_OPTIONS):
        command = option(command)
    return command


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
@click.option(
    "--token-file-seconds",
    default=60.0,
    show_default=True,
    type=click.FloatRange(min=0, max=86_400),
    metavar="S",
    help="How long the known tokens stay valid while the token file cannot be read; then all are refused.",
)
@_oauth_options
@click.option("--org", metavar="NAME", help="Org to serve when there are no tokens.")
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
@click.option(
    "--max-connections",
    default=1_000,
    show_default=True,
    metavar="N",
    help="Open connections, at most as many as the limit of file descriptors leaves room for.",
)
@click.option(
    "--max-per-address",
    default=100,
    show_default=True,
    metavar="N",
    help="Open connections of one address that have not shown a valid token. 0: no limit, as for a proxy.",
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
    token_file_seconds: float,
    org: str | None,
    allow_host: tuple[str, ...],
    rate: str,
    max_body: str,
    max_answer: str,
    threads: int,
    max_connections: int,
    max_per_address: int,
    waiting: int,
    grace: int,
    counter: str | None,
    embedder: str | None,
    db: str | None,
    **oauth: Any,
) -> None:
    """Serve a store over HTTP: a JSON API at /v1 and the MCP server at /mcp. Tokens separate tenants."""
    from satchel.server.connections import ConnectionLimits, most_connections
    from satchel.server.http.application import Limits
    from satchel.server.http.gate import Gate
    from satchel.server.http.serving import serve
    from satchel.server.listening import check_reach, parse_address

    listen = parse_address(address)
    remedy = "give a token file with --tokens (`satchel token create` makes one)"
    settings = _oauth_settings(oauth)
    check_reach(listen, has_token=tokens is not None or settings is not None, remedy=remedy)
    if org is not None and (tokens is not None or settings is not None):
        other = "--tokens" if tokens is not None else "--oauth-issuer"
        raise InputError(f"--org and {other} cannot be combined, because each token has its own org; give one")
    counts = (
        ("--threads", threads, 1),
        ("--waiting", waiting, 0),
        ("--grace", grace, 1),
        ("--max-connections", max_connections, 1),
        ("--max-per-address", max_per_address, 0),
    )
    for name, value, least in counts:
        if not least <= value <= 100_000:
            raise InputError(f"{name} {value} is out of range; give {least} to 100,000")
    limits = Limits(
        rate=_rate(rate),
        most_bytes=_size("--max-body", max_body),
        most_answer=_size("--max-answer", max_answer),
        threads=threads,
        waiting=waiting,
    )
    issuer = None
    if settings is not None:
        from satchel.server.http.oauth import OAuth

        issuer = OAuth(settings)
        allow_host = (*allow_host, settings.host)
    gate = Gate(tokens, org=org, rate=limits.rate, token_file_seconds=token_file_seconds, oauth=issuer)
    with open_store_for(db, create=True, counter=counter, embedder=embedder) as bag:
        bag.warm_up()
        connections = ConnectionLimits(most_connections(max_connections), max_per_address)
        serve(bag, gate, listen, limits=limits, connections=connections, grace=grace, allowed_hosts=allow_host)


def _oauth_settings(given: dict[str, Any]) -> "OAuthSettings | None":
    """Return the settings of the options that start with `--oauth-`; None if none is given."""
    named = {name.removeprefix("oauth_"): value for name, value in given.items() if value}
    if not named:
        return None
    for needed in ("issuer", "resource"):
        if needed not in named:
            other = next(iter(named)).replace("_", "-")
            raise InputError(f"--oauth-{other} needs --oauth-{needed}; give that too")
    from satchel.server.http.oauth import OAuthSettings

    if "audience" in named:
        named["audiences"] = named.pop("audience")
    if "jwks" in named:
        named["jwks_url"] = named.pop("jwks")
    return OAuthSettings(**named)


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
