"""The command that brings all that orgs have from one store to another."""

import click

from satchel.cli.options import json_option
from satchel.cli.output import aligned, counting_bar, note, print_json, print_text
from satchel.store.moving.comparing import Compared
from satchel.store.moving.migration import Migrated, migrate

__all__ = ["migrate_command"]

SHOWN_TROUBLES = 20
SHOWN_DIGITS = 12


@click.command("migrate")
@click.option("--from", "source", required=True, metavar="STORE", help="A file or postgresql://…; not changed.")
@click.option("--to", "target", required=True, metavar="STORE", help="The same; made if need be.")
@click.option("--org", "orgs", multiple=True, metavar="NAME", help="Only this org; repeatable. All of them else.")
@click.option("--verify-only", is_flag=True, help="Compare both, and move nothing.")
@json_option
@click.pass_context
def migrate_command(
    ctx: click.Context, source: str, target: str, orgs: tuple[str, ...], verify_only: bool, as_json: bool
) -> None:
    """Bring everything to another store. Memories with history, relations, uses and vectors, and agents'
    sessions; then both are compared. What was stopped goes on where it was.
    """
    try:
        with counting_bar("comparing" if verify_only else "migrating") as show:
            done = migrate(source, target, orgs=orgs, verify_only=verify_only, progress=show)
    except KeyboardInterrupt:
        raise click.Abort("stopped; the same command goes on where it was") from None
    if as_json:
        print_json(
            {
                "same": done.same,
                "arrived": done.arrived,
                **{name: getattr(done, name) for name in done.__struct_fields__},
            }
        )
    else:
        _show(done, verify_only=verify_only)
    if not (done.same if verify_only else done.arrived):
        ctx.exit(1)


def _show(done: Migrated, *, verify_only: bool) -> None:
    if not verify_only:
        print_text(
            f"added {done.added:,}, updated {done.updated:,}, unchanged {done.kept:,}, newer there {done.newer:,}, "
            f"refused {done.refused:,}\n"
        )
    # Of what an org has nothing in either store, there is nothing to say.
    some = [each for each in done.compared if each.source.count or each.target.count]
    if some:
        counts = [(f"{each.source.count:,}", f"{each.target.count:,}") for each in some]
        rows = [(each.org, each.kind, *pair, *_outcome(each)) for each, pair in zip(some, counts, strict=True)]
        print_text(aligned([("org", "kind", "source", "target", "checksum", ""), *rows], right=(2, 3)))
    else:
        print_text("there is nothing to compare\n")
    for trouble in done.troubles[:SHOWN_TROUBLES]:
        note(f"org {trouble.org}: {trouble.id}: {trouble.message}")
    if (more := done.newer + done.refused - SHOWN_TROUBLES) > 0:
        note(f"… and {more:,} more")
    if done.arrived and not done.same and not verify_only:
        note(f"all of it is there; {done.target} has more, which it had before")
    elif not done.same:
        note(f"{done.target} is not the same as {done.source}; what differs is listed above")


def _outcome(each: Compared) -> tuple[str, str]:
    if each.same:
        return each.source.checksum[:SHOWN_DIGITS], "same"
    counts = ((each.missing, "missing"), (each.extra, "more"), (each.differing, "other"))
    what = ", ".join(f"{count:,} {word}" for count, word in counts if count)
    return "differs", f"{what}: {', '.join(each.examples)}"
