"""What must be true of drains: pods are asked to leave, in order, and deleted only when their time is up.

Theory.      A drain is judged by its requests (``Removal``) and by the pods that begin to leave because of
             them. What is allowed follows from the machine: its drain timeout, the evictions that may be
             refused, whether a user forces the deletion, and for how long its node has been silent.
Called by    ``invariants``, whose table these rules stand in; ``vms`` (``may_force``).
"""

from collections.abc import Iterator
from datetime import timedelta

from kubewright.api.machine import names
from kubewright.base.delays import EVICTION
from kubewright.base.durations import parse_duration
from kubewright.machines.settings import FORCE_AFTER_SILENCE
from kubewright.wire import selectors
from simulation.invariants.facts import (
    asks_for_deletion,
    deleting,
    is_ready,
    volume_claims,
    volume_of,
)
from simulation.invariants.past import Past
from simulation.journal import (
    ATTACHMENTS,
    BUDGETS,
    MACHINES,
    NODES,
    PODS,
    VMS,
    ApiStep,
    Object,
    Removal,
    Step,
    VmStep,
)
from simulation.staleness import SLACK_SECONDS

DATE_SLACK_SECONDS = 2.0
"""How much earlier than the exact time is right: dates in objects and in answers have whole seconds only."""
BY_UID_OR_VERSION = (PODS, MACHINES, NODES)
"""What is deleted only as the very object that was seen."""


def no_pod_is_forced_early(step: Step, past: Past) -> str:
    """A pod is deleted, and not evicted, only when the drain's time is up or its node is gone."""
    if not isinstance(step, Removal) or step.resource != PODS or step.eviction:
        return ""
    pod = past.journal.objects[PODS].get(step.key)
    if pod is None or step.uid not in ("", pod["metadata"]["uid"]) or _may_be_deleted(pod, past):
        return ""
    return f"pod {step.key} is deleted with grace {step.grace}, before its time"


def budgets_hold(step: Step, past: Past) -> str:
    """No pod begins to leave whose disruption budget has none to spare, unless force is due."""
    if not isinstance(step, ApiStep) or step.resource != PODS or step.old is None or not is_ready(step.old):
        return ""
    cause = past.drained.cause(step)
    if cause is None or (not cause.eviction and _may_be_deleted(step.old, past)):
        return ""
    for budget in _budgets_of(step.old, past):
        least, healthy = _least(budget, past), sum(map(_serves, _pods_of(budget, past)))
        if healthy < least:
            return f"pod {step.key} leaves, and budget {budget['metadata']['name']} has {healthy} of {least}"
    return ""


def volumes_leave_one_by_one(step: Step, past: Past) -> str:
    """Of the pods with volumes on a node one leaves at a time, unless force is due.

    A manager lists the pods before each eviction, so it knows of all that left before, and of its own
    evictions at once. An eviction that arrives late may have been sent before another pod left.
    """
    if not isinstance(step, ApiStep) or step.resource != PODS or step.old is None:
        return ""
    cause = past.drained.cause(step)
    if cause is None or not any(volume_claims(step.old)):
        return ""
    node, since = str(step.old["spec"].get("nodeName", "")), past.since()
    prompt = since >= past.now() - SLACK_SECONDS
    leaving = past.drained.detaching.get(node, {}).items()
    known = [k for k, at in leaving if at < since or (prompt and past.drained.asker(k) == cause.client)]
    others = [key for key in known if key != step.key]
    if not others or _may_be_deleted(step.old, past):
        return ""
    return f"pod {step.key} leaves {node} while {others} are leaving, and all have volumes"


def volumes_move_before_the_next_pod(step: Step, past: Past) -> str:
    """A pod with volumes begins to leave when those of the pods before are detached, or have had their time.

    As above, an eviction that arrives late may be as old as the oldest of what its manager knows.
    """
    if not isinstance(step, ApiStep) or step.resource != PODS or step.old is None:
        return ""
    if (
        past.drained.cause(step) is None
        or not any(volume_claims(step.old))
        or _may_be_deleted(step.old, past)
    ):
        return ""
    node, since, now = str(step.old["spec"].get("nodeName", "")), past.since(), past.now()
    limit = past.settings.detach_timeout.total_seconds() - DATE_SLACK_SECONDS
    left = past.drained.left.get(node, {}).items()
    volumes = {volume_of(claim) for claim, at in left if at < since and now - at < limit}
    there = past.journal.objects[ATTACHMENTS].items()
    late = [
        name
        for name, each in there
        if each["spec"]["nodeName"] == node
        and each["spec"]["source"]["persistentVolumeName"] in volumes
        and past.drained.attached.get(name, now) < since
    ]
    return f"pod {step.key} leaves {node}, and {late} are attached without a pod" if late else ""


def volumes_are_detached_first(step: Step, past: Past) -> str:
    """A VM is deleted when its volumes are detached, or have had their time, or force is due.

    A VM without a machine is deleted as soon as its pods have left: the collector of orphans does not look
    at volumes.
    """
    if not isinstance(step, VmStep) or not asks_for_deletion(step) or step.new is None:
        return ""
    uid, node = step.new.owner_uid, step.new.node_name
    attached = [
        name for name, each in past.journal.objects[ATTACHMENTS].items() if each["spec"]["nodeName"] == node
    ]
    if not attached or uid not in past.uids or node in past.dead or node in past.lost:
        return ""
    empty = past.now() - past.drained.emptied.get(node, past.now())
    if empty >= past.settings.detach_timeout.total_seconds() - DATE_SLACK_SECONDS or may_force(
        uid, node, past
    ):
        return ""
    return f"{step.new.id} is deleted, and {attached} are attached"


def what_was_seen_is_deleted(step: Step, past: Past) -> str:
    """Pods, machines and nodes are removed by uid or version, and a VM for the machine that has it."""
    if not isinstance(step, Removal):
        return ""
    if step.resource in BY_UID_OR_VERSION and not (step.uid or step.version):
        return f"{step.client} removes {step.resource} {step.key}, whichever it is"
    if step.resource != VMS:
        return ""
    vm = past.journal.vms.get(step.vm.rpartition("/")[2])
    owned = vm is None or vm.owner_uid == step.uid or step.key in past.recorded.get(step.vm, {})
    return (
        "" if step.uid and owned else f"{step.client} deletes {step.vm or 'a VM'} for {step.key} {step.uid}"
    )


def may_force(uid: str, node: str, past: Past) -> bool:
    """Whether the pods of this machine's node need not be waited for any more."""
    machine = past.journal.objects[MACHINES].get(past.uids.get(uid, ""))
    if machine is None:
        return False
    if names.force_deletion(machine["metadata"].get("labels", {})):
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
    uids = [str(machines[key]["metadata"]["uid"]) for key in past.recorded.get(f"node {node}", ())]
    return any(may_force(uid, node, past) for uid in uids)


def _budgets_of(pod: Object, past: Past) -> Iterator[Object]:
    namespace, labels = pod["metadata"]["namespace"], pod["metadata"].get("labels", {})
    for budget in past.journal.objects[BUDGETS].values():
        selector = selectors.from_object(budget["spec"].get("selector"))
        if budget["metadata"]["namespace"] == namespace and selector.matches(labels):
            yield budget


def _pods_of(budget: Object, past: Past) -> list[Object]:
    selector, namespace = (
        selectors.from_object(budget["spec"].get("selector")),
        budget["metadata"]["namespace"],
    )
    pods = (p for p in past.journal.objects[PODS].values() if p["metadata"]["namespace"] == namespace)
    return [pod for pod in pods if selector.matches(pod["metadata"].get("labels", {}))]


def _least(budget: Object, past: Past) -> int:
    """How many pods a budget wants healthy. Stories have budgets of numbers, not of percentages."""
    spec = budget["spec"]
    if (missing := spec.get("maxUnavailable")) is not None:
        return len(_pods_of(budget, past)) - int(missing)
    return int(spec.get("minAvailable", 0))


def _serves(pod: Object) -> bool:
    return is_ready(pod) and not deleting(pod)
