"""A program that ``make kube`` puts into the cache, alone in a folder of its version.

Invariants.  Nothing is downloaded or built here (tools/kube does that). Places other than the cache are not
             looked at: they have another version of the program, if any.
Called by    ``kubeadm``, ``helm``, ``promtool``; tests/vm; tools/kube/install.py.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from kubewright.base.errors import InvalidInput
from kubewright.testing.real_kubernetes.binaries import VERSION, kubewright_cache


class NoProgram(InvalidInput):
    """This machine has not got the program; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Cached:
    """One such program, by its name and the version that tests want."""

    name: str
    version: str

    def folder(self, environ: Mapping[str, str] | None = None) -> Path:
        """Where ``make kube`` puts it."""
        return kubewright_cache(environ) / self.name / self.version

    def in_folder(self, folder: Path) -> Path | None:
        """The program in a folder, if it is there."""
        program = folder / self.name
        return program if os.access(program, os.X_OK) else None

    def find(self, environ: Mapping[str, str] | None = None) -> Path:
        """The program.

        Raises:
            NoProgram: the cache has not got it.
        """
        if (found := self.in_folder(self.folder(environ))) is not None:
            return found
        raise NoProgram(f"no {self.name} {self.version} on this machine; `make kube` makes one")


SCHEDULER = Cached("kube-scheduler", VERSION)
"""Places pods on nodes with real kubelets; other tests have nodes without any."""
