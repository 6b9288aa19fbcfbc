"""The commands of ``kubewright driver``. A command is one line here, and its own module.

Theory.      The modules of commands are quick to import: they declare switches, and import what does the work
             when they are called.
Called by    ``cli.app``.
"""

import typer

from kubewright.cli.driver.new import new

driver_commands = typer.Typer(
    help="Write drivers.",
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@driver_commands.callback()
def _group() -> None:
    """A group also while it has one command."""


driver_commands.command()(new)
