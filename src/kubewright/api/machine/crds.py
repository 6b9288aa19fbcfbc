"""The four CustomResourceDefinitions of ``machine.sapcloud.io/v1alpha1``.

Theory.      Names, columns, subresources, field names, types and required fields equal upstream's
             (mcm.md §1.1), so either set of CRDs serves either controller; the sentences are
             ours. Beyond upstream a MachineClass has a status, which tells whether its driver accepts
             it: a server with upstream's CRD has none, and the controllers do without. A MachineDeployment
             has ``excessReplicas``, which such a server drops, and a column for it. And there are
             defaults for a deployment's strategy: without one MCM refuses the object, so filling it in
             changes nothing that worked before.
Called by    ``kubewright crds`` and ``kubewright up``; ``make gen`` writes ``deploy/crds`` from
             here (``python -m kubewright.api.machine.crds``).
"""

import sys
from collections.abc import Iterable, Mapping
from typing import Any

from kubewright.api.crd import Column, Definition, crd
from kubewright.api.machine.v1alpha1 import MACHINE, MACHINE_CLASS, MACHINE_DEPLOYMENT, MACHINE_SET

AGE = Column(
    "Age",
    ".metadata.creationTimestamp",
    type="date",
    description="How long ago the object was created.",
)
HEADER = "# Written by `make gen`; do not edit.\n"
REPLICAS = (".spec.replicas", ".status.replicas")

DEFINITIONS = (
    Definition(MACHINE_CLASS),
    Definition(
        MACHINE,
        columns=(
            Column("Status", ".status.currentStatus.phase", description="The phase of the machine."),
            AGE,
            Column("Node", ".metadata.labels.node", description="The node that the machine became."),
            Column("ProviderID", ".spec.providerID", description="The cloud's id of the VM.", priority=1),
        ),
    ),
    Definition(
        MACHINE_SET,
        columns=(
            Column("Desired", ".spec.replicas", "integer", "How many machines there should be."),
            Column("Current", ".status.replicas", "integer", "How many machines there are."),
            Column("Ready", ".status.readyReplicas", "integer", "How many machines are Running."),
            AGE,
        ),
        scale=REPLICAS,
    ),
    Definition(
        MACHINE_DEPLOYMENT,
        columns=(
            Column("Ready", ".status.readyReplicas", "integer", "How many machines are Running."),
            Column("Desired", ".spec.replicas", "integer", "How many machines there should be."),
            Column("Up-to-date", ".status.updatedReplicas", "integer", "How many have the current template."),
            Column("Available", ".status.availableReplicas", "integer", "How many machines are available."),
            AGE,
            Column("Excess", ".spec.excessReplicas", "integer", "How many more are kept free.", priority=1),
        ),
        scale=REPLICAS,
    ),
)


def crds() -> tuple[dict[str, Any], ...]:
    """All four, in the order in which to install them."""
    return tuple(crd(definition) for definition in DEFINITIONS)


def manifest() -> str:
    """All four as one text for ``kubectl apply -f``."""
    return as_yaml(crds())


def files() -> dict[str, str]:
    """The CRDs as files of ``deploy/crds``: name to text."""
    return {f"{item['metadata']['name']}.yaml": HEADER + as_yaml([item]) for item in crds()}


def as_yaml(documents: Iterable[Mapping[str, Any]]) -> str:
    """Documents for ``kubectl apply -f``; the same text for the same documents."""
    from kubewright.wire.goyaml import dumped_all

    return dumped_all(documents, width=110)


if __name__ == "__main__":
    sys.stdout.write(manifest())
