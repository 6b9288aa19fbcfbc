"""What must be true of ends: nothing goes while something is left that needs it, and no VM or pod in spite
of a hook.

Theory.      One check for all APIs: a row says whose end it is, or which finalizer goes, and a function here
             says what is left that should have gone before.
Called by    ``table``.
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from kubewright.api.cluster import names
from kubewright.api.controlplane.names import KEEP_DATA_ANNOTATION
from simulation.controlplanes.machine import HostMachine
from simulation.journal import NAMESPACE_NAME, Object, Write
from simulation.resources import CLUSTER_MACHINES, CLUSTERS, CONFIGS, INFRA_MACHINES, PARTS
from simulation.rules.facts import (
    controllers_of,
    deleting,
    name_of,
    notes_of,
    owners_of,
    status_of,
    uid_of,
)
from simulation.rules.memories import cluster_is_deleted, owner_of, vms_of_clusters
from simulation.rules.past import NODE_DELETED, Past

if TYPE_CHECKING:
    from simulation.rules import Check, Rule

Left = Callable[[Write, Past], Iterable[str]]


def after(left: Left) -> "Check":
    """It goes after all of this."""

    def check(write: Write, past: Past, row: "Rule") -> str:
        still = list(left(write, past))
        loses = f"loses {row.finalizer}" if row.finalizer else "goes"
        return f"{write.kind} {write.key} {loses}, and there is {', '.join(still)}" if still else ""

    return check


# ---------------------------------------------------------------- machines


def living_vms(write: Write, past: Past) -> Iterable[str]:
    return past.living_vms(uid_of(write.before))


def members(write: Write, past: Past) -> Iterable[str]:
    record = past.sets.get(uid_of(write.before))
    return [f"{record.total} machines"] if record is not None and record.total else []


def sets(write: Write, past: Past) -> Iterable[str]:
    return [record.key for record in past.deployments[write.key].sets.values()]


def vm_of_node(write: Write, past: Past) -> Iterable[str]:
    vm = past.journal.vms.get(str(write.before["spec"].get("providerID", "")).rpartition("/")[2])
    by_user = NODE_DELETED + write.key in past.deleted_by_users
    return [vm.id] if vm is not None and vm.gone_at is None and not by_user else []


# ---------------------------------------------------------------- clusters


def parts_before(write: Write, past: Past) -> Iterable[str]:
    """What is left of the parts of a cluster that are deleted before this one."""
    return [each for each in PARTS[: PARTS.index(write.kind)] if past.journal.objects[each]]


def part_ends(write: Write) -> bool:
    """The deletion of a part begins, or the Cluster is gone."""
    if write.kind == CLUSTERS:
        return write.before is not None and write.after is None
    alive = write.committed and write.before is not None and not deleting(write.before)
    return alive and write.after is not None and deleting(write.after)


def vm_of_machine(write: Write, past: Past) -> Iterable[str]:
    """A user who moves a cluster leaves the VM behind."""
    uid = uid_of(write.before)
    mine = (vm.id for vm in vms_of_clusters(past) if owner_of(vm) == uid and vm.gone_at is None)
    return () if uid in past.deleted_by_users else mine


def infra_of_config(write: Write, past: Past) -> Iterable[str]:
    machine = _machine(write.before, past)
    if machine is None or uid_of(write.before) in past.deleted_by_users:
        return ()
    name = str(machine["spec"]["infrastructureRef"]["name"])
    return [name] if past.find(INFRA_MACHINES, name) else ()


def vm_of_deleted_node(write: Write, past: Past) -> Iterable[str]:
    return [vm.id for vm in vms_of_clusters(past) if vm.node_name == write.name and vm.gone_at is None]


def objects_of_machine(write: Write, past: Past) -> Iterable[str]:
    uid = uid_of(write.before)
    if uid in past.deleted_by_users:
        return
    for resource in (INFRA_MACHINES, CONFIGS):
        for found in past.all(resource):
            if any(each["uid"] == uid for each in owners_of(found)):
                yield f"its {found['kind']}"


def hooks(write: Write, past: Past, _row: "Rule") -> str:
    infra = write.after
    machine = _machine(infra, past)
    if machine is None or not deleting(infra) or deleting(write.before):
        return ""
    if not deleting(machine):
        return f"KubewrightMachine {name_of(infra)} is deleted, and its Machine is not"
    notes = notes_of(machine)
    held = [each for each in notes if each.startswith(names.PRE_TERMINATE_HOOK_PREFIX)]
    if "nodeRef" in status_of(machine) and not cluster_is_deleted(past):
        held += [each for each in notes if each.startswith(names.PRE_DRAIN_HOOK_PREFIX)]
    return f"KubewrightMachine {name_of(infra)} is deleted in spite of {held}" if held else ""


def _machine(found: Object, past: Past) -> Object | None:
    """The Machine that controls an object, while it is there."""
    uids = {str(each["uid"]) for each in controllers_of(found)}
    return next((each for each in past.all(CLUSTER_MACHINES) if uid_of(each) in uids), None)


# ---------------------------------------------------------------- nested control planes


def data_of_component(write: Write, past: Past) -> Iterable[str]:
    machine, name = past.part(HostMachine), (NAMESPACE_NAME, write.name)
    if name in machine.workloads:
        yield "something of it that runs"
    if name in machine.retained and KEEP_DATA_ANNOTATION not in notes_of(write.before):
        yield "its data"


def service_of_component(write: Write, past: Past) -> Iterable[str]:
    return ["its Service"] if (NAMESPACE_NAME, write.name) in past.part(HostMachine).services.made else ()
