"""Commands for the tokens of a service: token create, list, revoke."""

import re
import shlex
from datetime import datetime, timedelta
from pathlib import Path
from typing import cast

import click

from satchel.cli.options import json_option
from satchel.cli.output import note
from satchel.errors import InputError
from satchel.model.fields import as_name, utc_now

__all__ = ["token_command"]

_SPAN = re.compile(r"([0-9]{1,6})\s*([mhdwy])")
_UNITS = {
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
    from satchel.server.http.access import Access, new_token
    from satchel.server.http.token_file import add_token

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
    from satchel.server.http.token_file import read_tokens

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
            from satchel.fitting.as_json import as_json as written

            click.echo(written(facts))
        else:
            click.echo("  ".join(_shown(name, value) for name, value in facts.items() if value is not None))


@token_command.command("revoke")
@click.argument("identifier", metavar="ID")
@_tokens_option
def revoke_command(identifier: str, path: Path) -> None:
    """End a token, by its id; a running service refuses it from the next request on."""
    from satchel.server.http.access import parsed
    from satchel.server.http.token_file import revoke_token

    # The token itself names its id as well.
    revoked = revoke_token(path, parsed(identifier)[0] or identifier)
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
        return utc_now() + int(found[1]) * _UNITS[found[2]]
    except OverflowError:
        raise InputError(f"--expires {span!r} is beyond the year 9999") from None
