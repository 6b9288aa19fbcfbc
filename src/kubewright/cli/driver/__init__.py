"""``kubewright driver``: tools for the author of a driver.

Files        ``test``   the switches of `driver test` ``trial``  what it does
Called by    ``cli.app``, which must stay quick to import: what a command needs is imported when it is called.
"""

import typer

from kubewright.cli.driver.test import driver_test

driver = typer.Typer(
    help="Tools for authors of drivers.",
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
driver.command(name="test")(driver_test)
