"""The command line: ``kubewright up``, ``down``, ``status``, ``demo``, ``run``, ``crds``, and help with them.

Theory.      A command turns its arguments into ``compose.options`` values, and calls ``compose``. A mistake
             of the user ends in one plain sentence on stderr and a non-zero status. A traceback, in the log,
             means a bug of Kubewright.
Invariants.  Importing this package is cheap: a command imports what it needs when it is called.
Files        ``app``         the commands
             ``up/``, ``run/``, ``demo/``, ``serving`` (`status`, `down`), ``completion``
             ``switches``, ``signals``   what several commands share
"""

from kubewright.cli.app import main

__all__ = ["main"]
