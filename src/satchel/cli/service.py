"""The command that serves many: serve."""

import re
from pathlib import Path

import click

from satchel.cli.options import embedder_option, open_store_for, store_options
from satchel.errors import InputError

__all__ = ["serve_command"]

_RATE = re.compile(r"([0-9]+(?:\.[0-9]+)?)(?:/s)?")
_SIZE = re.compile(r"([0-9]+)\s*(|[kKmMgG](?:i?[bB])?|[bB])")
_UNITS = {"": 1, "b": 1, "k": 1024, "m": 1024**2, "g": 1024**3}
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
    from satchel.server.http.serving import check_reach, serve
    from satchel.server.mcp.web import parse_address

    listen = parse_address(address)
    check_reach(listen, tokens)
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
    size = int(found[1]) * _UNITS[found[2][:1].lower()] if found else 0
    if not 0 < size <= _MOST_BYTES:
        raise InputError(f"{option} {given!r} is not a size up to 1G, such as 4M")
    return size
