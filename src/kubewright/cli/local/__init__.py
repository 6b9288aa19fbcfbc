"""``kubewright local``: a developer's computer takes the machines of a running manager over, and back.

Theory.      Only one program may work on machines, so the manager in the cluster is scaled to zero while a
             developer's process does its work. ``setup`` writes down what it finds before it changes
             anything, and ``restore`` reads that record: it undoes what was changed and leaves the rest
             alone. Decisions are pure (``plan``), so each moment at which ``setup`` can be killed is a case
             of a table.
Invariants.  The record is on disk before the first change that it tells of, and goes after the last one is
             undone. Kubeconfigs are written with mode 0600 and are in no line that is printed.
Files        ``command``  what the two commands do
             ``plan``     from what is found to steps: what ``setup`` changes, what ``restore`` undoes
             ``garden``   short-lived kubeconfigs, from Gardener's API
             ``switches`` the options, as Gardener's scripts have them
Source       LOC-01 to LOC-03.
Called by    ``cli.app``.
"""

import typer

from kubewright.cli.local.switches import restore, setup

local = typer.Typer(
    help="Work here on the machines of a cluster, and give them back.",
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
local.command(name="setup")(setup)
local.command(name="restore")(restore)
