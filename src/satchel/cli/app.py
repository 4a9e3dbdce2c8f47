"""The commands by name; a command's module is imported only when it is called."""

import importlib

import click

from satchel import __version__
from satchel.errors import InputError

__all__ = ["app"]

COMMANDS = {
    "add": "satchel.cli.save",
    "get": "satchel.cli.show",
    "list": "satchel.cli.show",
    "search": "satchel.cli.find",
    "context": "satchel.cli.find",
    "context-pack": "satchel.cli.find",
    "update": "satchel.cli.save",
    "forget": "satchel.cli.save",
    "relate": "satchel.cli.save",
    "similar": "satchel.cli.show",
    "timeline": "satchel.cli.show",
    "history": "satchel.cli.show",
    "stats": "satchel.cli.show",
    "export": "satchel.cli.transfer",
    "import": "satchel.cli.transfer",
    "backup": "satchel.cli.transfer",
    "restore": "satchel.cli.transfer",
    "migrate": "satchel.cli.transfer",
    "doctor": "satchel.cli.upkeep",
    "reembed": "satchel.cli.upkeep",
    "tokens": "satchel.cli.upkeep",
    "mcp": "satchel.cli.serve",
    "gateway": "satchel.cli.serve",
    "serve": "satchel.cli.serve",
    "token": "satchel.cli.serve",
    "budget": "satchel.cli.sessions",
    "db": "satchel.cli.database",
    "completion": "satchel.cli.upkeep",
}


class LazyCommands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(COMMANDS[cmd_name])
        command: click.Command = getattr(module, f"{cmd_name.replace('-', '_')}_command")
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            from difflib import get_close_matches

            near = get_close_matches(args[0], COMMANDS, n=1)
            hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(COMMANDS)}"
            raise InputError(f"there is no command {args[0]!r}; {hint}")
        return super().resolve_command(ctx, args)


@click.group(cls=LazyCommands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="satchel %(version)s")
@click.option("--db", metavar="STORE", help="A file or postgresql://…; SATCHEL_DB or the user's data folder else.")
@click.option(
    "--embedder",
    metavar="SPEC",
    help="Who makes vectors: minilm, static, none, sentence-transformers:NAME_OR_PATH or openai:MODEL[@BASE_URL]; "
    "SATCHEL_EMBEDDER or the store's own else.",
)
@click.pass_context
def app(ctx: click.Context, db: str | None, embedder: str | None) -> None:
    """Memory for LLM agents that fits the token budget you give it."""
    if embedder is not None:
        from satchel.embed.embedder import resolve_embedder

        # Most commands embed nothing; a wrong word is wrong before all of them.
        resolve_embedder(embedder)
    ctx.obj = {"db": db, "embedder": embedder}
