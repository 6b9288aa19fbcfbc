"""What invariants read from one object as the server keeps it.

Called by    ``past`` and the rules.
"""

from collections.abc import Iterator, Mapping
from math import inf
from typing import Any

from kubewright.api.machine import excess, names
from kubewright.api.machine.names import SELECTED_LABEL
from kubewright.base.clock import parse_rfc3339
from kubewright.testing.clocks import BEGIN
from simulation.journal import ApiStep, Object, Step, VmStep

NO_OWNER: Mapping[str, Any] = {"uid": "", "name": ""}


def both(step: Step, resource: str) -> tuple[Object | None, Object | None]:
    """Before and after, of a step of this resource."""
    return (step.old, step.new) if isinstance(step, ApiStep) and step.resource == resource else (None, None)


def deleting(found: Object | None) -> bool:
    """Whether it was deleted and finalizers hold it."""
    return found is not None and "deletionTimestamp" in found["metadata"]


def has_finalizer(found: Object | None) -> bool:
    """Whether it is there and has our finalizer."""
    return found is not None and names.FINALIZER in found["metadata"].get("finalizers", ())


def loses_finalizer(step: ApiStep) -> bool:
    """Whether this step removes our finalizer."""
    return has_finalizer(step.old) and not has_finalizer(step.new)


def controller_of(found: Object) -> Mapping[str, Any]:
    """The owner that controls it."""
    refs: list[Mapping[str, Any]] = found["metadata"].get("ownerReferences") or []
    return next((ref for ref in refs if ref.get("controller")), NO_OWNER)


def phase(machine: Object) -> str:
    """A machine's phase."""
    return str(machine.get("status", {}).get("currentStatus", {}).get("phase", ""))


def running(machine: Object) -> bool:
    """Whether a machine's phase says that it is up; one whose VM joins no cluster is Available then."""
    return phase(machine) in ("Running", "Available")


def is_kept_free(machine: Object | None) -> bool:
    """Whether a machine has one of the taints that keep it free of workload."""
    template = machine["spec"].get("nodeTemplate", {}) if machine is not None else {}
    return any(taint["key"] == excess.TAINT for taint in template.get("spec", {}).get("taints") or ())


def provider_id(machine: Object) -> str:
    """The VM on record."""
    return str(machine["spec"].get("providerID", ""))


def node_name(machine: Object) -> str:
    """The node on record."""
    return str(machine["metadata"].get("labels", {}).get(names.NODE_LABEL, ""))


def recorded_by(machine: Object | None) -> Iterator[str]:
    """The VM and the node that a machine has on record; no other machine may have the same."""
    if machine is not None and (vm := provider_id(machine)):
        yield vm
    if machine is not None and (node := node_name(machine)):
        yield f"node {node}"


def is_ready(node: Object) -> bool:
    """Whether a Node or Pod is Ready."""
    conditions = node.get("status", {}).get("conditions", ())
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def ready_date(node: Object) -> float:
    """When a Node's Ready condition last changed, by its own date, in seconds since the world began."""
    conditions = node.get("status", {}).get("conditions", ())
    dates = (each.get("lastTransitionTime") for each in conditions if each["type"] == "Ready")
    return next(((parse_rfc3339(date) - BEGIN).total_seconds() for date in dates if date), inf)


def ended(pod: Object) -> bool:
    """Whether a pod has run to its end."""
    return pod.get("status", {}).get("phase") in ("Succeeded", "Failed")


def volume_claims(pod: Object) -> Iterator[str]:
    """The names of a pod's PersistentVolumeClaims."""
    for volume in pod["spec"].get("volumes") or ():
        if (found := volume.get("persistentVolumeClaim")) is not None:
            yield str(found["claimName"])


def volume_of(claim: str) -> str:
    """The PersistentVolume of a claim, as ``workloads`` names it."""
    return f"pv-{claim}"


def revision(found: Object | None) -> int:
    """The revision of a deployment or set; 0 for none."""
    notes = found["metadata"].get("annotations", {}) if found is not None else {}
    text = str(notes.get(names.REVISION_ANNOTATION, ""))
    return int(text) if text.isdecimal() else 0


def template_of(found: Object) -> str:
    """The template of a deployment or set, as far as a rollout is concerned."""
    template = found["spec"]["template"]
    labels: Mapping[str, str] = template.get("metadata", {}).get("labels", {})
    told = sorted(f"{key}={labels[key]}" for key in labels if key != names.TEMPLATE_HASH_LABEL)
    return " ".join([str(template["spec"]["class"]["name"]), *told])


def progress_of(deployment: Object) -> tuple[str, str]:
    """Status and reason of a deployment's condition about its rollout."""
    conditions = deployment.get("status", {}).get("conditions", ())
    found = ((str(c["status"]), str(c["reason"])) for c in conditions if c["type"] == "Progressing")
    return next(found, ("", ""))


def asks_for_deletion(step: VmStep) -> bool:
    """Whether the cloud was asked to delete the VM in this step."""
    old, new = step.old, step.new
    return old is not None and new is not None and old.gone_at is None and new.gone_at is not None


def selects(step: ApiStep) -> bool:
    """Whether a node is selected for an update in place from this step on."""
    before, after = (each["metadata"].get("labels", {}) if each else {} for each in (step.old, step.new))
    return SELECTED_LABEL in after and SELECTED_LABEL not in before
