"""Vectors that a command makes before it ends, since nothing goes on after it."""

import click

from satchel.api.satchel import Satchel
from satchel.cli.options import about_this_store
from satchel.cli.output import counting_bar, note
from satchel.errors import EmbedderError

__all__ = ["embed_waiting"]


def embed_waiting(bag: Satchel, db: str | None) -> None:
    """Embed what a write has left waiting, with a bar; what cannot be embedded now is said and waits on.

    Ctrl-C ends the command and says how many memories wait, and how to go on.
    """
    try:
        total = bag.waiting
        if total:
            with counting_bar("embedding", total) as show:
                bag.catch_up(progress=lambda done: show(done, max(done, total)))
    except EmbedderError as error:
        note(str(error))
    except KeyboardInterrupt:
        advice = (
            f"stopped; all is stored, and {bag.waiting:,} wait for their vectors, found by their words "
            "meanwhile: `satchel reembed` makes them"
        )
        raise click.Abort(about_this_store(advice, db)) from None
