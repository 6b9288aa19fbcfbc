"""The command line: ``kubewright up``, ``down``, ``status``, ``demo``, ``run``, ``crds``, and help with them.

Theory.      A command turns words into ``compose.options`` values and hands over. What a user can
             get wrong ends in one plain sentence on stderr and a non-zero status; a traceback is
             for us, in the log, when the mistake is ours.
Invariants.  Importing this package is cheap: a command imports what it needs when it is called.
Files        ``app``         the commands
             ``up``          with ``up_words``; ``merging``, ``kubeconfig_text``: a person's own kubeconfig
             ``down``, ``standing`` (`status`), ``run`` with ``run_words``, ``demo/``, ``completion``
             ``words``, ``signals``, ``states``   what several commands share
"""

from kubewright.cli.app import main

__all__ = ["main"]
