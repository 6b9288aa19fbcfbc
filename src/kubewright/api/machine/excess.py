"""Machines that are kept free (``spec.excessReplicas``), as objects show it: taints, annotations. Pure.

Theory.      A MachineDeployment may have more machines than its replicas. These stand by: two taints on the
             node keep pods away, so pods that find no room can be scheduled at once when the taints go. Which
             machines they are stands on the Machines themselves: the taints are in the node template of each,
             and from there they reach its node, as all that a node template has. The set's template has them
             never. So what a set copies from its template onto its machines leaves these taints alone
             (``carried``), and no comparison of a machine with the template sees them (``without``).
             Cluster-autoscaler must not remove the node of such a machine for being empty. It is told by the
             annotation that rollouts and preservations use too, with a proof of its own: whose reason ends
             first takes its own proof off, and the last one the annotation (``let_go``).
Invariants.  The key of the taints, with these two effects, is the controller's alone: validation refuses it
             in templates. Another effect of that key is a user's.
Source       EXC-03 to EXC-05. It names no key for the taints; this one is ours.
Called by    ``validate``; ``machines.excess``, which decides; sets, nodes and rollouts of ``machines``.
"""

from collections.abc import Mapping

from msgspec import structs

from kubewright.api.core import Taint
from kubewright.api.machine import names
from kubewright.api.machine.v1alpha1 import MachineSpec, NodeTemplateSpec

TAINT = "node.machine.sapcloud.io/excess-capacity"
EFFECTS = ("NoSchedule", "NoExecute")

KEPT_ANNOTATION = "kubewright.dev/excess-replicas"
"""On a MachineSet, ours: how many of its machines are kept free when it shrinks. On a MachineDeployment, a
user's: what ``spec.excessReplicas`` says where that is not given. Programs whose type lacks the field take it
out when they write the object back, as Gardener's cluster-autoscaler does at each scaling; this they keep."""

PROOF_ANNOTATION = "kubewright.dev/scale-down-disabled-for-excess"
"""On a Node, ours: cluster-autoscaler's annotation is there since the node is kept free."""

_TRUE = "true"
_DISABLED = names.SCALE_DOWN_DISABLED_ANNOTATION
_PROOFS = (names.SCALE_DOWN_DISABLED_BY_US_ANNOTATION, PROOF_ANNOTATION)


def is_ours(taint: Taint) -> bool:
    """Whether only the controller that keeps machines free may write this taint."""
    return taint.key == TAINT and taint.effect in EFFECTS


def effects_of(template: NodeTemplateSpec) -> frozenset[str]:
    """The effects of our taints in a machine's node template; empty where it is not kept free."""
    return frozenset(taint.effect for taint in template.spec.taints if is_ours(taint))


def kept_free(spec: MachineSpec, *, free: bool) -> MachineSpec:
    """The spec of a machine with both taints, or with none of them."""
    ours = tuple(Taint(key=TAINT, value=_TRUE, effect=effect) for effect in EFFECTS if free)
    return _with(spec, ours)


def without(spec: MachineSpec) -> MachineSpec:
    """The spec of a machine, or of the template of one, as if it were not kept free."""
    return _with(spec, ()) if effects_of(spec.node_template) else spec


def carried(source: MachineSpec, onto: MachineSpec) -> MachineSpec:
    """A spec with our taints as another one has them."""
    ours = tuple(taint for taint in source.node_template.spec.taints if is_ours(taint))
    return _with(onto, ours) if ours or effects_of(onto.node_template) else onto


def claimed(annotations: Mapping[str, str], proof: str) -> dict[str, str]:
    """What keeps cluster-autoscaler off a node for the reason with this proof, by the node's annotations.

    What a user wrote, another value or one without any proof of ours beside it, stays and gets no proof.
    """
    value = annotations.get(_DISABLED)
    ours = value == _TRUE and any(each in annotations for each in _PROOFS)
    return {_DISABLED: _TRUE, proof: _TRUE} if value is None or ours else {}


def let_go(annotations: Mapping[str, str], proof: str) -> tuple[str, ...]:
    """The annotations of a node that go when the reason with this proof ends: none without that proof; the
    proof alone while another reason stays, or where a user has given another value since."""
    if proof not in annotations:
        return ()
    others = any(each in annotations for each in _PROOFS if each != proof)
    theirs = annotations.get(_DISABLED, _TRUE) != _TRUE
    return (proof,) if others or theirs else (_DISABLED, proof)


def alone(annotations: Mapping[str, str]) -> bool:
    """Whether a node has cluster-autoscaler's annotation only since it is kept free."""
    proofs = [each for each in _PROOFS if each in annotations]
    return annotations.get(_DISABLED) == _TRUE and proofs == [PROOF_ANNOTATION]


def _with(spec: MachineSpec, ours: tuple[Taint, ...]) -> MachineSpec:
    template = spec.node_template
    others = tuple(taint for taint in template.spec.taints if not is_ours(taint))
    node = structs.replace(template.spec, taints=(*others, *ours))
    return structs.replace(spec, node_template=structs.replace(template, spec=node))
