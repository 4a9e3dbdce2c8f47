"""--plot: a picture of where the tokens of a context went, as a file."""

from pathlib import Path

import click

from satchel.cli.output import note
from satchel.errors import InputError
from satchel.model.receipt import Receipt

__all__ = ["plot_option", "save_picture"]


def _checked(ctx: click.Context, param: click.Parameter, value: Path | None) -> Path | None:
    if value is not None and str(value) == "-":
        raise InputError("--plot needs a file, since standard output has the text; such as --plot context.svg")
    if value is not None and value.suffix.lower() not in ("", ".svg"):
        raise InputError(f"--plot draws an SVG, not a {value.suffix} file; name it {value.with_suffix('.svg')}")
    if value is not None:
        from satchel.api.transfer.files import check_target

        # Before anything counts as used.
        check_target(value.expanduser())
    return value


plot_option = click.option(
    "--plot",
    metavar="FILE.svg",
    type=click.Path(path_type=Path),
    callback=_checked,
    help="Also draw where the tokens went, into this file.",
)


def save_picture(receipt: Receipt, target: Path, *, title: str) -> None:
    """Write or replace the file in one step, and say so."""
    from satchel.api.transfer.files import write_atomically
    from satchel.cli.plots.picture import pack_picture

    write_atomically(target.expanduser(), [pack_picture(receipt, title=title).encode()])
    note(f"drew {target}")
