"""``kubewright driver``: what an author of a driver needs besides the contract.

Theory.      A command is one line below, and a module of its own. Those modules are quick to import: they
             declare switches, and import what does the work when they are called.
Files        ``new``         `driver new`: a project that works at once
             ``blueprint/``  the files of that project, with places for its names
             ``test``        `driver test`: its switches; ``trial`` is what it does
             ``serve``       `driver serve`: a driver in a process of its own, which dials a manager
Called by    ``cli.app``.
"""

import typer

from kubewright.cli.driver.new import new
from kubewright.cli.driver.serve import serve
from kubewright.cli.driver.test import driver_test

driver = typer.Typer(
    help="Tools for authors of drivers.",
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
driver.command(name="new")(new)
driver.command(name="test")(driver_test)
driver.command(name="serve")(serve)
