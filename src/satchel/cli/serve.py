"""The commands `serve`, for the HTTP service, and `token` for its tokens."""

import os
import shlex
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from satchel.cli.options import json_option
from satchel.cli.output import note
from satchel.cli.store_options import (
    counter_option,
    embedder_option,
    read_db_option,
    replica,
    store_opener,
    store_options,
)
from satchel.errors import InputError
from satchel.model.extras import needs_extra
from satchel.model.memory import as_name, utc_now
from satchel.model.patterns import lazy_pattern

if TYPE_CHECKING:
    from satchel.server.http.oauth import OAuthSettings

Command = TypeVar("Command", bound=Callable[..., Any])

__all__ = ["serve_command", "token_command"]


_RATE = lazy_pattern(r"([0-9]+(?:\.[0-9]+)?)(?:/s)?")
_SIZE = lazy_pattern(r"([0-9]+)\s*(|[kKmMgG](?:i?[bB])?|[bB])")
_BYTE_UNITS = {"": 1, "b": 1, "k": 1024, "m": 1024**2, "g": 1024**3}
_MOST_BYTES = 1024**3
_MOST_PROCESSES = 256


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
    "--processes",
    type=int,
    metavar="N",
    help="Processes that run calls; with 1, the service runs them itself.  [default: one per core]",
)
@click.option(
    "--threads",
    default=8,
    show_default=True,
    metavar="N",
    help="Calls that one process runs at a time, at most half of all for one org. Only two of them compute; the "
    "others wait for a lock or for the database.",
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
@read_db_option
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
    processes: int | None,
    threads: int,
    max_connections: int,
    max_per_address: int,
    waiting: int,
    grace: int,
    counter: str | None,
    embedder: str | None,
    read_db: str | None,
    db: str | None,
    **oauth: Any,
) -> None:
    """Serve a store over HTTP: a JSON API at /v1 and the MCP server at /mcp. Tokens separate tenants."""
    with needs_extra("serve", "satchel serve"):
        from satchel.server.connections import ConnectionLimits, most_connections
        from satchel.server.http.application import Limits
        from satchel.server.http.gate import Gate
        from satchel.server.http.serving import serve
        from satchel.server.http.worker_process import WorkerSettings
        from satchel.server.http.workers import PIPES_OF_WORKER
        from satchel.server.listening import check_reach, parse_address

    listen = parse_address(address)
    remedy = "give a token file with --tokens (`satchel token create` makes one)"
    settings = _oauth_settings(oauth)
    check_reach(listen, has_token=tokens is not None or settings is not None, remedy=remedy)
    if org is not None and (tokens is not None or settings is not None):
        other = "--tokens" if tokens is not None else "--oauth-issuer"
        raise InputError(f"--org and {other} cannot be combined, because each token has its own org; give one")
    opener = store_opener(db, create=True, counter=counter, embedder=embedder, read_db=replica(db, read_db))
    processes = _processes(processes, opener.location)
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
        processes=processes,
        threads=threads,
        waiting=waiting,
    )
    issuer = None
    if settings is not None:
        from satchel.server.http.oauth import OAuth

        issuer = OAuth(settings)
        allow_host = (*allow_host, settings.host)
    gate = Gate(tokens, org=org, rate=limits.rate, token_file_seconds=token_file_seconds, oauth=issuer)
    most = most_connections(max_connections, reserved=PIPES_OF_WORKER * processes)
    connections = ConnectionLimits(most, max_per_address)
    with opener() as bag:
        workers = None
        if processes > 1:
            workers = WorkerSettings(
                location=opener.location,
                read_db=opener.read_db,
                counter=opener.counter,
                embedder=opener.embedder,
                threads=threads,
                most_answer=limits.most_answer,
            )
        else:
            bag.warm_up(whole=True)
        serve(
            bag,
            gate,
            listen,
            limits=limits,
            connections=connections,
            grace=grace,
            allowed_hosts=allow_host,
            workers=workers,
        )


def _processes(given: int | None, location: str) -> int:
    """Return how many processes run calls. Default: one for each core that this process may use."""
    if given is not None and not 1 <= given <= _MOST_PROCESSES:
        raise InputError(f"--processes {given} is out of range; give 1 to {_MOST_PROCESSES}")
    if location == ":memory:":
        if given is not None and given > 1:
            raise InputError(f"--processes {given}: a store in memory cannot be shared; name a file with --db")
        return 1
    return given or min(_MOST_PROCESSES, _cores())


def _cores() -> int:
    """Return the number of cores that this process may use, which a container may limit."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # macOS and Windows
        return os.cpu_count() or 1


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

_SPAN = lazy_pattern(r"([0-9]{1,6})\s*([mhdwy])")
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
