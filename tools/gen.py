"""Write every generated file anew, or (``--check``) say which ones are stale.

Theory.      A generated file has one source in the code and is committed, so that people can read
             it and a diff shows what a change does to others. A generator is a pure function
             from nothing to texts by path; its folder holds nothing else, so a file that it no
             longer makes is removed. Only where the folder is ``shared`` do others write beside it.
Called by    ``make gen`` and ``make check``.
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import chart
import controllers_page
import machine_phases
import merge_keys
import monitoring
import switches_page
from kubewright.api.bootstrap import rbac as bootstrap_rbac
from kubewright.api.cluster import rbac as cluster_rbac
from kubewright.api.controlplane import rbac as controlplane_rbac
from kubewright.api.infra import rbac as infra_rbac
from kubewright.api.machine import crds, rbac
from kubewright.api.webhooks import rbac as webhooks_rbac

ROOT = Path(__file__).parents[1]
Texts = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Generated:
    """A folder, relative to the checkout, and what belongs into it by file name."""

    folder: str
    texts: Callable[[], Texts]
    shared: bool = False

    def wanted(self) -> dict[Path, str | None]:
        """The text of each file; None for one that is there and should not be."""
        folder = ROOT / self.folder
        own = () if self.shared else (path for path in folder.glob("*") if path.is_file())
        there: dict[Path, str | None] = dict.fromkeys(own)
        return there | {folder / name: text for name, text in self.texts().items()}


def _one_namespace() -> Texts:
    """The roles of all who work on clusters, for a program that works in one namespace."""
    return {
        name: text
        for api in (cluster_rbac, bootstrap_rbac, infra_rbac, controlplane_rbac)
        for name, text in api.files_of_one_namespace().items()
    }


GENERATORS: tuple[Generated, ...] = (
    Generated("deploy/crds", crds.files),
    Generated("deploy/rbac", rbac.files),
    *(
        Generated(f"deploy/beside-mcm/{half}", partial(rbac.patches_of, half), shared=True)
        for half in rbac.HALVES
    ),
    Generated("deploy/clusters", cluster_rbac.files, shared=True),
    Generated("deploy/clusters", bootstrap_rbac.files, shared=True),
    Generated("deploy/clusters", infra_rbac.files, shared=True),
    Generated("deploy/clusters", controlplane_rbac.files, shared=True),
    Generated("deploy/one-namespace", _one_namespace, shared=True),
    Generated("deploy/clusters", webhooks_rbac.files, shared=True),
    Generated("deploy/monitoring", monitoring.files, shared=True),
    Generated("deploy/chart/files", chart.files),
    Generated("src/kubewright/controlplanes/rendering", merge_keys.files, shared=True),
    Generated("docs/reference", machine_phases.files, shared=True),
    Generated("docs/reference", controllers_page.files, shared=True),
    Generated("docs/reference", switches_page.files, shared=True),
)


def stale() -> Iterator[tuple[Path, str | None]]:
    for generated in GENERATORS:
        for path, text in sorted(generated.wanted().items()):
            if text != (path.read_text() if path.exists() else None):
                yield path, text


def main(arguments: list[str]) -> int:
    changes = list(stale())
    if "--check" in arguments:
        for path, _ in changes:
            print(f"stale: {path.relative_to(ROOT)}; `make gen` writes it", file=sys.stderr)
        return 1 if changes else 0
    for path, text in changes:
        print(f"{'removed' if text is None else 'wrote'} {path.relative_to(ROOT)}")
        if text is None:
            path.unlink()
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
