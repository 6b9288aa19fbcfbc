"""What must be true of drains: pods are asked to leave, in order, and deleted only when their time is up.

Theory.      A drain is judged by its requests (``EVICTS``, ``DELETES``) and by the pods that begin to leave
             because of them. What is allowed follows from the machine: its drain timeout, the evictions that
             may be refused, whether a user forces the deletion, and for how long its node has been silent.
             A manager lists the pods before each eviction, so it knows of all that left before, and of its
             own evictions at once. An eviction that arrives late may have been sent before another pod left.
Called by    ``table``; ``lives`` (``may_force``).
"""

from collections.abc import Iterator
from datetime import timedelta
from typing import TYPE_CHECKING

from kubewright.api.machine import names
from kubewright.base.delays import EVICTION
from kubewright.base.durations import parse_duration
from kubewright.machines.settings import FORCE_AFTER_SILENCE
from kubewright.wire import selectors
from simulation.journal import ATTACHMENTS, BUDGETS, EVICTS, MACHINES, NODES, PODS, Object, Write
from simulation.rules.facts import (
    deleting,
    is_ready,
    labels_of,
    uid_of,
    volume_claims,
    volume_of,
)
from simulation.rules.past import Past
from simulation.staleness import SLACK_SECONDS

if TYPE_CHECKING:
    from simulation.rules import Rule

DATE_SLACK_SECONDS = 2.0
"""How much earlier than the exact time is right: dates in objects and in answers have whole seconds only."""


def forced(write: Write, past: Past, _row: "Rule") -> str:
    pod = past.journal.objects[PODS].get(write.key)
    if pod is None or write.asked.uid not in ("", uid_of(pod)) or _may_be_deleted(pod, past):
        return ""
    return f"pod {write.key} is deleted with grace {write.asked.grace}, before its time"


def budget(write: Write, past: Past, _row: "Rule") -> str:
    pod, cause = write.before, past.drained.cause(write)
    if not is_ready(pod) or cause is None or (cause.verb != EVICTS and _may_be_deleted(pod, past)):
        return ""
    for each in _budgets_of(pod, past):
        least, healthy = _least(each, past), sum(map(_serves, _pods_of(each, past)))
        if healthy < least:
            return f"pod {write.key} leaves, and budget {each['metadata']['name']} has {healthy} of {least}"
    return ""


def volumes_at_once(write: Write, past: Past, _row: "Rule") -> str:
    cause = past.drained.cause(write)
    if cause is None or not any(volume_claims(write.before)):
        return ""
    node, since = str(write.before["spec"].get("nodeName", "")), past.since()
    prompt = since >= past.now() - SLACK_SECONDS
    leaving = past.drained.detaching.get(node, {}).items()
    known = [k for k, at in leaving if at < since or (prompt and past.drained.asker(k) == cause.actor)]
    others = [key for key in known if key != write.key]
    if not others or _may_be_deleted(write.before, past):
        return ""
    return f"pod {write.key} leaves {node} while {others} are leaving, and all have volumes"


def volumes_left(write: Write, past: Past, _row: "Rule") -> str:
    pod, drained = write.before, past.drained
    if drained.cause(write) is None or not any(volume_claims(pod)) or _may_be_deleted(pod, past):
        return ""
    node, since, now = str(pod["spec"].get("nodeName", "")), past.since(), past.now()
    limit, left = _detach_seconds(past), drained.left.get(node, {}).items()
    volumes = {volume_of(claim) for claim, at in left if at < since and now - at < limit}
    late = [
        name
        for name, each in _attached(node, past)
        if each["spec"]["source"]["persistentVolumeName"] in volumes
        and drained.attached.get(name, now) < since
    ]
    return f"pod {write.key} leaves {node}, and {late} are attached without a pod" if late else ""


def attached(write: Write, past: Past, _row: "Rule") -> str:
    """A VM without a machine is deleted as soon as its pods have left: the collector of orphans does not
    look at volumes."""
    uid, node = write.after.owner_uid, write.after.node_name
    volumes = [name for name, _ in _attached(node, past)]
    if not volumes or uid not in past.uids or node in past.dead or node in past.lost:
        return ""
    empty = past.now() - past.drained.emptied.get(node, past.now())
    if empty >= _detach_seconds(past) or may_force(uid, node, past):
        return ""
    return f"{write.key} is deleted, and {volumes} are attached"


def pods(write: Write, past: Past, _row: "Rule") -> str:
    """That is: the VM is dead, or a user deleted its Node; a user forces the deletion; the drain timeout is
    over; or its kubelet has been silent for so long that it will not end them."""
    vm, node = write.after, write.after.node_name
    there = past.drained.on.get(node)
    if not there or node in past.dead or node in past.lost:
        return ""
    return "" if may_force(vm.owner_uid, node, past) else f"{vm.id} is deleted under {list(there)}"


def whichever(write: Write, _past: Past, _row: "Rule") -> str:
    known = write.asked.uid or write.asked.version
    return "" if known else f"{write.actor} removes {write.kind} {write.key}, whichever it is"


def vm_of_another(write: Write, past: Past, _row: "Rule") -> str:
    uid, asked = write.asked.uid, write.asked.vm
    vm = past.journal.vms.get(asked.rpartition("/")[2])
    owned = vm is None or vm.owner_uid == uid or write.key in past.recorded.get(asked, {})
    return "" if uid and owned else f"{write.actor} deletes {asked or 'a VM'} for {write.key} {uid}"


def _detach_seconds(past: Past) -> float:
    return past.settings.detach_timeout.total_seconds() - DATE_SLACK_SECONDS


def _attached(node: str, past: Past) -> Iterator[tuple[str, Object]]:
    """The VolumeAttachments of a node, by name."""
    found = past.journal.objects[ATTACHMENTS].items()
    return ((name, each) for name, each in found if each["spec"]["nodeName"] == node)


def may_force(uid: str, node: str, past: Past) -> bool:
    """Whether the pods of this machine's node need not be waited for any more."""
    machine = past.journal.objects[MACHINES].get(past.uids.get(uid, ""))
    if machine is None:
        return False
    if names.force_deletion(labels_of(machine)):
        return True
    late = past.now() - past.leaving.get(uid, past.now()) >= drain_seconds(machine, past) - DATE_SLACK_SECONDS
    silent = (
        past.now() - past.not_ready.get(node, past.now())
        > FORCE_AFTER_SILENCE.total_seconds() - DATE_SLACK_SECONDS
    )
    return late or silent


def drain_seconds(machine: Object, past: Past) -> float:
    """How long pods have to leave: the drain timeout, or ``maxEvictRetries`` refusals, if that is less."""
    spec, settings = machine["spec"], past.settings
    own, refusals = spec.get("drainTimeout"), spec.get("maxEvictRetries", settings.max_evict_retries)
    timeout: timedelta = parse_duration(own) if own else settings.drain_timeout
    fit = timeout // EVICTION
    most: timedelta = (fit if refusals is None else min(refusals, fit)) * EVICTION
    return most.total_seconds()


def _may_be_deleted(pod: Object, past: Past) -> bool:
    """Whether a pod may be removed with no eviction: by its drain, or because its node is gone."""
    node = str(pod["spec"].get("nodeName", ""))
    if node not in past.journal.objects[NODES]:
        return True
    machines = past.journal.objects[MACHINES]
    uids = [uid_of(machines[key]) for key in past.recorded.get(f"node {node}", ())]
    return any(may_force(uid, node, past) for uid in uids)


def _budgets_of(pod: Object, past: Past) -> Iterator[Object]:
    namespace, labels = pod["metadata"]["namespace"], labels_of(pod)
    for budget in past.all(BUDGETS):
        selector = selectors.from_object(budget["spec"].get("selector"))
        if budget["metadata"]["namespace"] == namespace and selector.matches(labels):
            yield budget


def _pods_of(budget: Object, past: Past) -> list[Object]:
    selector, namespace = (
        selectors.from_object(budget["spec"].get("selector")),
        budget["metadata"]["namespace"],
    )
    there = (p for p in past.all(PODS) if p["metadata"]["namespace"] == namespace)
    return [pod for pod in there if selector.matches(labels_of(pod))]


def _least(budget: Object, past: Past) -> int:
    """How many pods a budget wants healthy. Stories have budgets of numbers, not of percentages."""
    spec = budget["spec"]
    if (missing := spec.get("maxUnavailable")) is not None:
        return len(_pods_of(budget, past)) - int(missing)
    return int(spec.get("minAvailable", 0))


def _serves(pod: Object) -> bool:
    return is_ready(pod) and not deleting(pod)
