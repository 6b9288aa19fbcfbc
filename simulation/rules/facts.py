"""What rules read from one object as the server keeps it.

Called by    ``past`` and the rules.
"""

from collections.abc import Iterator, Mapping, Sequence
from math import inf
from typing import Any

from kubewright.api.machine import excess, names
from kubewright.api.machine.names import SELECTED_LABEL
from kubewright.base.clock import parse_rfc3339
from kubewright.testing.clocks import BEGIN
from simulation.journal import Object, Write

NO_OWNER: Mapping[str, Any] = {"uid": "", "name": ""}


def deleting(found: Object | None) -> bool:
    """Whether it was deleted and finalizers hold it."""
    return found is not None and "deletionTimestamp" in found["metadata"]


def finalizers_of(found: Object | None) -> Sequence[str]:
    """What holds it."""
    held: Sequence[str] = found["metadata"].get("finalizers", ()) if found is not None else ()
    return held


def name_of(found: Object) -> str:
    """Its name."""
    return str(found["metadata"]["name"])


def uid_of(found: Object) -> str:
    """Its uid."""
    return str(found["metadata"]["uid"])


def labels_of(found: Object) -> Mapping[str, str]:
    """Its labels."""
    labels: Mapping[str, str] = found["metadata"].get("labels", {})
    return labels


def notes_of(found: Object | None) -> Mapping[str, str]:
    """Its annotations."""
    notes: Mapping[str, str] = (found["metadata"].get("annotations") or {}) if found is not None else {}
    return notes


def status_of(found: Object | None) -> Mapping[str, Any]:
    """Its status; empty for none."""
    status: Mapping[str, Any] = found.get("status", {}) if found is not None else {}
    return status


def conditions_of(found: Object | None) -> Mapping[str, str]:
    """The status of each condition, by its type."""
    return {str(each["type"]): str(each["status"]) for each in status_of(found).get("conditions", ())}


def owners_of(found: Object) -> list[Object]:
    """Its owner references."""
    return list(found["metadata"].get("ownerReferences") or ())


def controllers_of(found: Object) -> list[Object]:
    """Those that control it."""
    return [each for each in owners_of(found) if each.get("controller")]


def controller_of(found: Object) -> Mapping[str, Any]:
    """The owner that controls it."""
    return next(iter(controllers_of(found)), NO_OWNER)


def phase(machine: Object) -> str:
    """A machine's phase."""
    return str(machine.get("status", {}).get("currentStatus", {}).get("phase", ""))


def running(machine: Object) -> bool:
    """Whether a machine's phase says that it is up; one whose VM joins no cluster is Available then."""
    return phase(machine) in ("Running", "Available")


def runs(machine: Object | None) -> bool:
    """Whether a machine of a cluster is Running."""
    return status_of(machine).get("phase") == "Running"


def is_kept_free(machine: Object | None) -> bool:
    """Whether a machine has one of the taints that keep it free of workload."""
    template = machine["spec"].get("nodeTemplate", {}) if machine is not None else {}
    return any(taint["key"] == excess.TAINT for taint in template.get("spec", {}).get("taints") or ())


def provider_id(machine: Object) -> str:
    """The VM on record."""
    return str(machine["spec"].get("providerID", ""))


def node_name(machine: Object) -> str:
    """The node on record."""
    return labels_of(machine).get(names.NODE_LABEL, "")


def recorded_by(machine: Object | None) -> Iterator[str]:
    """The VM and the node that a machine has on record; no other machine may have the same."""
    if machine is not None and (vm := provider_id(machine)):
        yield vm
    if machine is not None and (node := node_name(machine)):
        yield f"node {node}"


def is_ready(found: Object) -> bool:
    """Whether a Node or Pod is Ready."""
    return conditions_of(found).get("Ready") == "True"


def ready_date(node: Object) -> float:
    """When a Node's Ready condition last changed, by its own date, in seconds since the world began."""
    conditions = status_of(node).get("conditions", ())
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
    text = str(notes_of(found).get(names.REVISION_ANNOTATION, ""))
    return int(text) if text.isdecimal() else 0


def template_of(found: Object) -> str:
    """The template of a deployment or set, as far as a rollout is concerned."""
    template = found["spec"]["template"]
    labels: Mapping[str, str] = template.get("metadata", {}).get("labels", {})
    told = sorted(f"{key}={labels[key]}" for key in labels if key != names.TEMPLATE_HASH_LABEL)
    return " ".join([str(template["spec"]["class"]["name"]), *told])


def progress_of(deployment: Object) -> tuple[str, str]:
    """Status and reason of a deployment's condition about its rollout."""
    conditions = status_of(deployment).get("conditions", ())
    found = ((str(c["status"]), str(c["reason"])) for c in conditions if c["type"] == "Progressing")
    return next(found, ("", ""))


def selects(write: Write) -> bool:
    """Whether a node is selected for an update in place from this entry on."""
    if not write.committed:
        return False
    before, after = (labels_of(each) if each else {} for each in (write.before, write.after))
    return SELECTED_LABEL in after and SELECTED_LABEL not in before
