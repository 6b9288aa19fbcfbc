"""What is to be done about one Cluster. Pure.

Theory.      Its providers do the work: the Cluster becomes the controller of the object of each of them,
             and what the objects say is copied. Where no control plane provider keeps the kubeconfig, it is
             made here from the cluster's certificate authority, and again when half of its life is over.
             When the authority changes, the kubeconfig does once the API server verifies by the new one.
Deletion.    Its machines, and what makes machines, are deleted first, then its control plane, then its
             infrastructure: each of them needs what comes after it. A stage begins when nothing of the one
             before is left; the watches of what is waited for enqueue the Cluster. A timer does only where
             none shows whether there is an object of a provider. Whatever of its machines and of what makes
             them is waited for is deleted from here, unless something else of the Cluster controls it and
             will: so it does not matter who owns it, or owned it once. A Machine is deleted once its
             controller has begun with it, which finds the objects of its providers.
Invariants.  A paused Cluster is never written, and not deleted either. It gets our finalizer before anything
             is claimed. An endpoint that is known is never changed: a user or a provider set it. An object
             of a provider that another owner controls is not deleted. What could not be looked at counts as
             there. Machines of the control plane are its provider's while that is there.
Called by    ``act``. ``status`` says how it went.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from kubewright.api.cluster import names
from kubewright.api.cluster.conditions import ConditionType, Reason
from kubewright.api.cluster.v1beta1 import ApiEndpoint
from kubewright.api.conditions import is_condition_true, since_not_true
from kubewright.base import delays
from kubewright.base.plan import AT_ONCE, Awaited, Plan, in_order
from kubewright.clusters.cluster.seen import (
    CONTROL_PLANE,
    INFRASTRUCTURE,
    AddFinalizer,
    Child,
    Claim,
    DeleteChild,
    DeleteExternal,
    RemoveFinalizer,
    Seen,
    SetEndpoint,
    Step,
    WriteKubeconfig,
    endpoint_of,
)
from kubewright.clusters.external.mirroring import awaited, awaited_in_deletion
from kubewright.clusters.external.object import External, claim
from kubewright.pki.credentials import (
    ADMIN,
    NO_KEY,
    Held,
    Kubeconfig,
    authority_is_unfit,
    kubeconfig_due,
    kubeconfig_is_outdated,
    trusts_another,
)
from kubewright.runtime.credentials.values import url

UNREAD = "objects that it refers to are not read yet"


def decide(seen: Seen) -> Plan[Step]:
    """The plan for one pass."""
    if seen.paused:
        return Plan(because="the cluster is paused", silent=True)
    plan = _decided(seen)
    return Plan(because=UNREAD, silent=True) if seen.incomplete and not plan.last else plan


def _decided(seen: Seen) -> Plan[Step]:
    """The plan if all that the Cluster refers to is read."""
    if seen.cluster.metadata.deleting:
        return decide_deletion(seen)
    if names.CLUSTER_FINALIZER not in seen.cluster.metadata.finalizers:
        return Plan((AddFinalizer(),), AT_ONCE, "the cluster is new", last=True, silent=True)
    deciders = (_claim_objects, _copy_endpoint, _keep_kubeconfig, _await_others)
    return in_order(deciders, seen, Plan())


def _claim_objects(seen: Seen) -> Plan[Step] | None:
    """Become the controller of what the references name."""
    steps: list[Claim] = []
    for about, external in ((INFRASTRUCTURE, seen.infrastructure), (CONTROL_PLANE, seen.control_plane)):
        patch = claim(external, seen.owner, seen.cluster.name).patch if external is not None else None
        if external is not None and patch is not None:
            steps.append(Claim(about, external, patch))
    if not steps:
        return None
    return Plan(
        tuple(steps), because=f"{' and '.join(str(each.external) for each in steps)} is the cluster's"
    )


def _copy_endpoint(seen: Seen) -> Plan[Step] | None:
    """Copy the endpoint from the infrastructure once that is ready, else from the control plane."""
    if seen.endpoint is not None:
        return None
    infrastructure = seen.infrastructure if seen.infrastructure and seen.infrastructure.ready else None
    for external in (infrastructure, seen.control_plane):
        if external is None or external.paused or external.other_controller(seen.owner):
            continue
        if (found := endpoint_of(external)) is not None:
            because = f"{external} says that the API server is at {found}"
            return Plan((SetEndpoint(found),), AT_ONCE, because, last=True, silent=True)
    return None


def _keep_kubeconfig(seen: Seen) -> Plan[Step] | None:
    """Make the kubeconfig, and make it anew in time."""
    if kubeconfig_problem(seen) or seen.endpoint is None or seen.authority is None:
        return None
    if seen.cluster.spec.control_plane_ref is not None:
        return None
    old = seen.kubeconfig
    if old is None:
        return Plan((WriteKubeconfig(seen.endpoint, seen.authority),), because="there is no kubeconfig yet")
    if not old.owned_by(seen.owner):
        return None
    wanted = wanted_kubeconfig(seen.cluster.name, seen.endpoint)
    due = kubeconfig_is_outdated(old, wanted, seen.authority, seen.now)
    if due and (wrong := cannot_sign(seen.authority, seen.now)):
        return Plan(because=f"{due}, but {authority_name(seen)} {wrong}")
    if due and seen.unverified is None:
        return Plan(because=f"{due}, and its API server is asked whether it verifies by that")
    if due and (differs := kubeconfig_differs(seen)):
        remedy = (
            "give the API server the files of the new authority, or put the old pair back into the Secret"
        )
        waits = Awaited(f"the API server to verify by {authority_name(seen)}", remedy)
        return Plan(wake=delays.UNHEARD, because=differs, awaits=(waits,))
    if due:
        return Plan((WriteKubeconfig(seen.endpoint, seen.authority, old),), because=due)
    half = kubeconfig_due(old.kubeconfig, wanted, seen.authority) if old.kubeconfig is not None else None
    wake = half - seen.now if half is not None else None
    return Plan(wake=wake, because="the kubeconfig is made anew when half of its life is over")


def wanted_kubeconfig(cluster: str, endpoint: ApiEndpoint) -> Kubeconfig:
    """The kubeconfig of a cluster whose control plane no provider keeps."""
    secret, authority = names.kubeconfig_secret(cluster), f"{cluster}{names.CA_SUFFIX}"
    return Kubeconfig(secret, authority, url(endpoint), ADMIN, cluster, f"{cluster}-admin", strict=False)


def cannot_sign(authority: Held, now: datetime) -> str:
    """Why an authority cannot sign a kubeconfig now, as the end of a sentence; empty if it can."""
    unfit = authority_is_unfit(authority, now, signs=True)
    return f"{unfit}, by which a kubeconfig could be signed" if unfit == NO_KEY else unfit


def _await_others(seen: Seen) -> Plan[Step] | None:
    """Name what has to come from providers, users and machines until machines can join."""
    found = tuple(_awaited(seen))
    if not found:
        return None
    return Plan(because=f"waits for {' and '.join(each.what for each in found)}", awaits=found)


def _awaited(seen: Seen) -> Iterator[Awaited]:
    conditions = seen.cluster.status.conditions
    for condition_type, external in (
        (ConditionType.INFRASTRUCTURE_READY, seen.infrastructure),
        (ConditionType.CONTROL_PLANE_READY, seen.control_plane),
    ):
        since = since_not_true(conditions, condition_type)
        if external is not None and (found := awaited(external, seen.owner, since)) is not None:
            yield found
    infrastructure = seen.infrastructure
    if infrastructure is None:
        yield Awaited("spec.infrastructureRef", "set it: without infrastructure there are no machines")
    elif infrastructure.ready and seen.endpoint is None:
        remedy = f"set it, or see why {infrastructure} has no spec.controlPlaneEndpoint"
        yield Awaited("spec.controlPlaneEndpoint", remedy)
    elif kubeconfig_problem(seen):
        remedy = "make it, with a certificate that may sign and its key, or see the first machine's bootstrap"
        yield Awaited(authority_name(seen), remedy)
    elif seen.endpoint is not None and seen.control_plane is None and not seen.first_node:
        initialized = ConditionType.CONTROL_PLANE_INITIALIZED
        if not is_condition_true(conditions, initialized):
            remedy = "make a Machine of the control plane, or see the conditions of the one that there is"
            since = since_not_true(conditions, initialized)
            yield Awaited("the first machine of the control plane to become a Node", remedy, since)


def kubeconfig_problem(seen: Seen) -> str:
    """Why there is no kubeconfig although it is ours to make; empty if there is one, or it is not."""
    if (
        seen.endpoint is None
        or seen.cluster.spec.control_plane_ref is not None
        or seen.kubeconfig is not None
    ):
        return ""
    if seen.authority is None:
        return f"waiting for {authority_name(seen)}, by which the kubeconfig is signed"
    unfit = cannot_sign(seen.authority, seen.now)
    return f"{authority_name(seen)} {unfit}" if unfit else ""


def kubeconfig_differs(seen: Seen) -> str:
    """Why the kubeconfig keeps an authority that is not the cluster's any more; empty if it does not."""
    held, authority = seen.kubeconfig, seen.authority
    if held is None or authority is None or not held.owned_by(seen.owner):
        return ""
    if seen.cluster.spec.control_plane_ref is not None or not trusts_another(held, authority):
        return ""
    differs = f"the kubeconfig has another authority than {authority_name(seen)}, and stays"
    if wrong := cannot_sign(authority, seen.now):
        return f"{differs}: the Secret {wrong}"
    return f"{differs}: {seen.unverified}" if seen.unverified else ""


def authority_name(seen: Seen) -> str:
    """The Secret of the cluster's certificate authority, for messages."""
    return f"Secret {seen.cluster.name}{names.CA_SUFFIX}"


NAMES_SHOWN = 5
"""Names of one kind in a message; of the rest only the number is told."""


@dataclass(frozen=True, slots=True)
class Stage:
    """Where a deletion is: a reason for programs, what is waited for, and what to do about it.

    ``awaits``: the first of that, each with what a user can do. ``wake``: in how long to look again; None:
    a watch tells.
    """

    reason: str
    waits_for: str
    steps: tuple[Step, ...] = ()
    awaits: tuple[Awaited, ...] = ()
    wake: timedelta | None = None


def decide_deletion(seen: Seen) -> Plan[Step]:
    """Delete what is to be deleted in this stage; the Cluster itself after the last."""
    now = stage(seen)
    because = now.waits_for or "nothing of the cluster is left"
    return Plan(now.steps, now.wake, because, awaits=now.awaits)


def stage(seen: Seen) -> Stage:
    """The first stage that is not over."""
    if found := _children(seen):
        return found
    for about, external, reason in (
        (CONTROL_PLANE, seen.control_plane, Reason.WAITING_FOR_CONTROL_PLANE_DELETION),
        (INFRASTRUCTURE, seen.infrastructure, Reason.WAITING_FOR_INFRASTRUCTURE_DELETION),
    ):
        if external is not None and not is_over(external, seen):
            return _external(about, external, reason)
    return Stage(Reason.DELETION_COMPLETED, "", (RemoveFinalizer(),))


def is_over(external: External, seen: Seen) -> bool:
    """The object of a reference is gone, or another owner controls it."""
    return external.gone or bool(external.other_controller(seen.owner))


def _children(seen: Seen) -> Stage | None:
    """Everything that makes machines, and machines; None once there are none left."""
    provider = seen.control_plane
    provided = provider is not None and not is_over(provider, seen)
    counted = [each for each in seen.children if not (provided and each.control_plane)]
    if not counted:
        return None
    controllers = {each.uid for each in counted}
    ours = (each for each in counted if each.controller not in controllers)
    steps = tuple(DeleteChild(each) for each in ours if each.begun and not each.deleting)
    workers = any(not each.control_plane for each in counted)
    reason = Reason.WAITING_FOR_WORKERS_DELETION if workers else Reason.WAITING_FOR_CONTROL_PLANE_DELETION
    awaits = tuple(map(_awaited_child, counted[:NAMES_SHOWN]))
    return Stage(reason, f"waiting for {_listed(counted)} to be deleted", steps, awaits)


def _awaited_child(child: Child) -> Awaited:
    remedy = "see its condition Deleting, and its finalizers"
    if child.paused:
        remedy = f"remove its annotation {names.PAUSED_ANNOTATION}"
    return Awaited(f"{child.kind_name} {child.name} to be deleted", remedy, child.deleted_at)


def _external(about: str, external: External, reason: str) -> Stage:
    awaits = (awaited_in_deletion(external),)
    if external.found is None:
        told = f"waiting to see whether {external} is deleted: {external.absence}"
        return Stage(reason, told, awaits=awaits, wake=external.unheard)
    steps = () if external.deleting else (DeleteExternal(about, external),)
    return Stage(reason, f"waiting for {external} to be deleted", steps, awaits)


def _listed(children: list[Child]) -> str:
    """``MachineDeployment a; Machine b, c and 3 more``."""
    by_kind: defaultdict[str, list[str]] = defaultdict(list)
    for each in children:
        by_kind[each.kind_name].append(f"{each.name} (paused)" if each.paused else each.name)
    return "; ".join(f"{kind} {_some(found)}" for kind, found in by_kind.items())


def _some(found: list[str]) -> str:
    shown, more = ", ".join(found[:NAMES_SHOWN]), len(found) - NAMES_SHOWN
    return f"{shown} and {more} more" if more > 0 else shown
