"""What must be true of owners and hands: one controller, real owners, and no hand on what is paused or
another's.

Theory.      Writes of managers are judged when a server has carried them out, and calls when a host has. A
             manager may not know at once that something is paused, or another program's, so a rule waits for
             a moment.
Called by    ``table``.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from kubewright.api.cluster.names import CLUSTER_FINALIZER, CLUSTER_NAME_LABEL
from kubewright.api.cluster.v1beta1 import CLUSTER
from kubewright.api.controlplane.names import Component
from simulation.controlplanes.parts import ORDER, PLANE, find, name_of_part, secret
from simulation.journal import CONTROL, NAMESPACE_NAME, POST, WORKLOADS, Object, Write
from simulation.resources import (
    CHECKS,
    CLUSTER_DEPLOYMENTS,
    CLUSTER_MACHINES,
    CLUSTER_OBJECTS,
    CLUSTER_SETS,
    CLUSTERS,
    COMPONENTS,
    CONFIG_TEMPLATES,
    CONFIGS,
    INFRA_CLUSTERS,
    INFRA_MACHINES,
    INFRA_TEMPLATES,
    PLANES,
    SECRETS,
)
from simulation.rules.facts import (
    controllers_of,
    deleting,
    finalizers_of,
    labels_of,
    name_of,
    owners_of,
    runs,
    uid_of,
)
from simulation.rules.memories import ClusterPast
from simulation.rules.past import Past
from simulation.rules.planes import ELSEWHERE, PAUSED, PlanePast

if TYPE_CHECKING:
    from simulation.rules import Rule

CONTROLLED: Mapping[str, tuple[str, ...]] = {
    "Machine": (CONFIGS, INFRA_MACHINES),
    CLUSTER.resource.kind: (INFRA_CLUSTERS,),
    "MachineDeployment": (CLUSTER_SETS,),
    "MachineSet": (CLUSTER_MACHINES,),
}
"""What objects of a kind control, of those that anything controls."""
OWNED_BY_CLUSTER = (CLUSTER_DEPLOYMENTS, CHECKS, CONFIG_TEMPLATES, INFRA_TEMPLATES)
"""What the Cluster owns and does not control."""
OF_A_CLUSTER = (*CLUSTER_OBJECTS, CHECKS, CONFIG_TEMPLATES, INFRA_TEMPLATES)
_RESOURCES: Mapping[str, str] = {PLANE: PLANES} | {str(each): found for each, found in COMPONENTS.items()}

# ---------------------------------------------------------------- owners


def controllers(write: Write, past: Past, row: "Rule") -> str:
    """It gets its controller once, and keeps it, unless a user has it left behind."""
    found, known = controllers_of(write.after), past.memory(ClusterPast).controllers
    if len(found) > 1:
        return f"{write.kind} {write.key} has {len(found)} controllers"
    if found and found[0]["kind"] != row.owner:
        return f"{write.kind} {write.key} is controlled by a {found[0]['kind']}"
    now, before = "".join(str(each["uid"]) for each in found), known.get(uid_of(write.after), "")
    left = not now and before in past.deleted_by_users
    return (
        "" if before in ("", now) or left else f"{write.kind} {write.key} has lost or changed its controller"
    )


def unreal_owner(write: Write, past: Past, _row: "Rule") -> str:
    """An object of this name and uid must be, or have been, there: else the garbage collector deletes."""
    known = past.memory(ClusterPast).known
    kinds = {each[0] for each in known}
    before = owners_of(write.before) if write.before is not None else []
    for each in owners_of(write.after):
        named = (str(each["kind"]), str(each["name"]), str(each["uid"]))
        if each not in before and named[0] in kinds and named not in known:
            return f"{write.kind} {write.key} is owned by {named[0]} {named[1]} of an unknown uid"
    return ""


def lonely(write: Write, past: Past, _row: "Rule") -> str:
    if runs(write.before) or not runs(write.after):
        return ""
    mine = {key for key in past.memory(ClusterPast).made if key.startswith(f"{NAMESPACE_NAME}/")}
    secrets = past.journal.objects[SECRETS].items()
    wrong = [
        f"Secret {name} has no owner" for name, found in secrets if name in mine and not owners_of(found)
    ]
    wrong += [*_wrong_around(write.after, past), *_wrong_with(write.after, past)]
    return f"{write.name} runs, but {', '.join(wrong)}" if wrong else ""


def _wrong_with(machine: Object, past: Past) -> Iterator[str]:
    """What is wrong with the machine and its own objects."""
    spec, name = machine["spec"], name_of(machine)
    infra = past.find(INFRA_MACHINES, str(spec["infrastructureRef"]["name"]))
    yield from _not_controlled(infra, machine, f"KubewrightMachine of {name}")
    if "configRef" in spec["bootstrap"]:
        config = past.find(CONFIGS, str(spec["bootstrap"]["configRef"]["name"]))
        yield from _not_controlled(config, machine, f"KubeadmConfig of {name}")
        data = past.find(SECRETS, str(spec["bootstrap"]["dataSecretName"]))
        if config is not None:
            yield from _not_controlled(data, config, f"data Secret of {name}")
    if not controllers_of(machine) and not _is_owned(machine, past):
        yield "it has no owner"
    if CLUSTER_NAME_LABEL not in labels_of(machine):
        yield "it has no label of its cluster"


def _wrong_around(machine: Object, past: Past) -> Iterator[str]:
    """What is wrong with the objects that all machines of the cluster share."""
    cluster = past.find(CLUSTERS, str(machine["spec"]["clusterName"]))
    if cluster is not None:
        infra = past.find(INFRA_CLUSTERS, str(cluster["spec"]["infrastructureRef"]["name"]))
        yield from _not_controlled(infra, cluster, "KubewrightCluster")
    if controllers_of(machine):
        for resource in OWNED_BY_CLUSTER:
            for name, found in past.journal.objects[resource].items():
                if not _is_owned(found, past):
                    yield f"{resource} {name} is not the cluster's"


def _not_controlled(found: Object | None, by: Object, what: str) -> Iterator[str]:
    if found is None or [str(each["uid"]) for each in controllers_of(found)] != [uid_of(by)]:
        yield f"the {what} is {'gone' if found is None else 'not controlled by it'}"


def _is_owned(found: Object, past: Past) -> bool:
    """Whether the Cluster is an owner that does not control."""
    uids = {uid_of(each) for each in past.all(CLUSTERS)}
    owners = (each for each in owners_of(found) if each["kind"] == CLUSTER.resource.kind)
    return any(each["uid"] in uids and not each.get("controller") for each in owners)


def claimed_early(write: Write, past: Past, _row: "Rule") -> str:
    """A part would not be deleted in order."""
    claimed = controllers_of(write.after) and not (write.before and controllers_of(write.before))
    free = any(CLUSTER_FINALIZER not in finalizers_of(each) for each in past.all(CLUSTERS))
    return f"{write.kind} is claimed by a cluster without a finalizer" if claimed and free else ""


def users_secret(write: Write, past: Past, _row: "Rule") -> str:
    """No controller writes, owns or deletes it."""
    if owners_of(write.before):
        return ""
    if write.after is None:
        gone = secret(write.name) not in past.deleted_by_users
        return f"the user's Secret {write.name} is deleted" if gone else ""
    same = write.before.get("data") == write.after.get("data") and not owners_of(write.after)
    return "" if same else f"the user's Secret {write.name} is changed"


# ---------------------------------------------------------------- what is paused, or another's


def paused_cluster(write: Write, _past: Past, _row: "Rule") -> str:
    """It stays, with its status and finalizers as they are, until a user ends the pause."""
    old, new = write.before, write.after
    if not old["spec"].get("paused") or (new and not new["spec"].get("paused")):
        return ""
    if not new:
        return "a paused cluster is gone"
    same = old.get("status") == new.get("status") and finalizers_of(old) == finalizers_of(new)
    return "" if same else f"a paused cluster is written: {', '.join(k for k in new if old.get(k) != new[k])}"


def written_in_pause(write: Write, past: Past, row: "Rule") -> str:
    paused = past.memory(ClusterPast).paused
    if paused is None or past.now() - paused < row.bound:
        return ""
    of_cluster = write.where != CONTROL or write.kind in OF_A_CLUSTER
    return f"{_told(write)} ({write.where}) while the cluster is paused" if of_cluster else ""


def touched_in_pause(write: Write, past: Past, _row: "Rule") -> str:
    paused = _touched(write) is not None and past.memory(PlanePast).for_long(PLANE, PAUSED, past)
    return f"{_told(write)} of a paused control plane" if paused else ""


def touched_elsewhere(write: Write, past: Past, _row: "Rule") -> str:
    which = _touched(write)
    if which is None or not past.memory(PlanePast).for_long(which, ELSEWHERE, past):
        return ""
    over = deleting(find(past.journal, which)) or deleting(find(past.journal, PLANE))
    return "" if over else f"{_told(write)}, which another program manages"


def _touched(write: Write) -> str | None:
    """Which of the four a manager writes, or asks a host to change."""
    if write.kind == WORKLOADS:
        return next((each for each in Component if name_of_part(each) == write.name), None)
    if write.committed or write.verb == POST:
        return None
    kinds = (each for each in ORDER if _RESOURCES[each] == write.kind)
    return next((each for each in kinds if name_of_part(each) == write.name), None)


def _told(write: Write) -> str:
    return f"{write.actor}: {write.verb} {write.kind} {write.key}"
