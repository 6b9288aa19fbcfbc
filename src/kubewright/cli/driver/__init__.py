"""``kubewright driver``: what an author of a driver needs besides the contract.

Theory.      A command is one line below, and a module of its own. Those modules are quick to import: they
             declare switches, and import what does the work when they are called.
Files        ``serve``       `driver serve`: a driver in a process of its own, which dials a manager
Called by    ``cli.app``.
"""

import typer

from kubewright.cli.driver.serve import serve

driver = typer.Typer(
    help="Tools for authors of drivers.",
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
driver.command(name="serve")(serve)
