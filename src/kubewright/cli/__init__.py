"""The command line: ``kubewright`` with its commands, and ``managevm``.

Theory.      A command turns its arguments into ``compose.options`` values, and calls ``compose``. A mistake
             of the user ends in one plain sentence on stderr and a non-zero status. A traceback, in the log,
             means a bug of Kubewright.
Invariants.  Importing this package is cheap: a command imports what it needs when it is called.
Map          ``app``       the commands and their arguments, the completion of shells, and ``main``
             ``serving``   `status` of a data folder and `down`; ``member`` is `restore-member`; each other
                           command's work is in the folder of its name (``troubles``: `status -n`)
             ``switches``  switches that several commands have, and how a command ends
             ``asking``    which server a command asks; ``counts``, how objects are counted in a few words
"""

from kubewright.cli.app import main

__all__ = ["main"]
