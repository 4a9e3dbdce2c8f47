"""Groups of commands whose modules are imported when one of their commands is called."""

import importlib
from collections.abc import Mapping

import click

from satchel.cli.help import HelpContext, with_wrapped_help

__all__ = ["ModuleCommands"]


class ModuleCommands(click.Group):
    """Commands by name, each with the module that defines it as `NAME_command`."""

    context_class = HelpContext
    modules: Mapping[str, str] = {}

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.modules)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.modules:
            return None
        module = importlib.import_module(self.modules[cmd_name])
        command: click.Command = getattr(module, f"{cmd_name.replace('-', '_')}_command")
        # The options of an operation, which `operation_options` adds only now.
        if complete := getattr(command.callback, "complete", None):
            complete(command)
        with_wrapped_help(command)
        return command
