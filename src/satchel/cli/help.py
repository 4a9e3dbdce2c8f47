"""Help texts that fit a narrow terminal, and the arguments as they were typed."""

from collections.abc import Iterable

import click

from satchel.model.patterns import lazy_pattern

__all__ = ["TYPED", "HelpContext", "with_wrapped_help"]

TYPED = "satchel.typed"
"""Where the `meta` of a context has the arguments as they were typed."""


# An option and its values, such as `--kind [fact|todo|…]`; click never breaks this line.
_CHOICE = lazy_pattern(r"(?P<names>.*--(?P<name>[\w-]+)) \[(?P<values>[^\[\]]*\|[^\[\]]*)\]")
LONGEST_TERM = 30


class WrappedHelp(click.HelpFormatter):
    """Lists of options whose long choices stand in the description, where they are wrapped."""

    def write_dl(self, rows: Iterable[tuple[str, str]], col_max: int = LONGEST_TERM, col_spacing: int = 2) -> None:
        super().write_dl([_shortened(*row) for row in rows], min(col_max, self.width // 2), col_spacing)


def _shortened(term: str, text: str) -> tuple[str, str]:
    match = _CHOICE.fullmatch(term)
    if match is None or len(term) <= LONGEST_TERM:
        return term, text
    values = match["values"].replace("|", ", ")
    said, mark, default = text.partition("  [default")
    return f"{match['names']} {match['name'].upper()}", f"{said} One of: {values}.{mark}{default}".lstrip()


class HelpContext(click.Context):
    """A context of a command whose help is wrapped to the terminal."""

    formatter_class = WrappedHelp


def with_wrapped_help(command: click.Command) -> None:
    """Make a command, and those of a group, print their help so."""
    command.context_class = HelpContext
    if isinstance(command, click.Group):
        for inner in command.commands.values():
            with_wrapped_help(inner)
