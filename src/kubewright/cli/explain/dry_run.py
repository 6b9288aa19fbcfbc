"""A dry run of the controllers: what they would decide about an object, from what the server shows.

Theory.      A controller that has just started knows only what the servers show, and decides by that. So the
             controllers' own looks and deciders, on caches that are filled by one list each and no watch, say
             what such a controller would do. No step is performed, and no cloud is asked.
             What only a running manager knows is missing: its switches (the defaults count), since when it
             has seen what it waits for, and the state of its calls to the cloud.
Invariants.  Only reads, with the rights of the user. Of a Secret only its existence is used.
Called by    ``command``, for the kinds of ``machine.sapcloud.io``.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

import msgspec

from kubewright.api.core import NODE, SECRET
from kubewright.api.kinds import Kind, dynamic
from kubewright.api.machine import names
from kubewright.api.machine.v1alpha1 import (
    MACHINE,
    MACHINE_CLASS,
    MACHINE_DEPLOYMENT,
    MACHINE_SET,
    ClassSpec,
    Machine,
)
from kubewright.api.storage import VOLUME_ATTACHMENT
from kubewright.base.errors import KubewrightError
from kubewright.base.plan import Plan
from kubewright.cli.explain.story import OBJECTS, Decision, Expected
from kubewright.driver.life.seen import NOTHING, VmSeen
from kubewright.kube.client import Client, Written
from kubewright.kube.informer import Informer, Informers
from kubewright.kube.scope import Namespaces
from kubewright.machines.caches import Caches, LookDeps, class_key, secret_keys
from kubewright.machines.deployment import MACHINE_DEPLOYMENTS
from kubewright.machines.excess.decide import decide as decide_taints
from kubewright.machines.machine.decide import foresee, outcome
from kubewright.machines.machine.look import Looker
from kubewright.machines.machine.memory import Memory as MachineMemory
from kubewright.machines.machine.memory import Moments
from kubewright.machines.machineset.member import read
from kubewright.machines.machineset.policy import MACHINE_SETS
from kubewright.machines.migration.old_classes import OldClasses, Trouble
from kubewright.machines.settings import MACHINE_TAINT, MachineSettings
from kubewright.replicas.deployment.decide import decide as decide_deployment
from kubewright.replicas.deployment.look import look
from kubewright.replicas.members import MemberIndex
from kubewright.replicas.objects import WITHOUT_CONTROLLER, namespace_if_uncontrolled
from kubewright.replicas.set.decide import decide as decide_set
from kubewright.replicas.set.look import Looker as SetLooker
from kubewright.replicas.set.look import Memory
from kubewright.wire.errors import NotFound
from kubewright.wire.gvk import Key, Resource


@dataclass(slots=True)
class DryRun:
    """What the controller would do now and next; ``notes`` says what could not be read."""

    decided: list[Decision] = field(default_factory=list)
    expected: list[Expected] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


class _NoCalls:
    """Stands for the owner of the calls to the cloud, in a process that never made one."""

    def seen(self, uid: str) -> VmSeen:
        return NOTHING

    def doubt_until(
        self,
        uid: str,
        *,
        created: datetime | None,
        recorded: bool,
        confirm_absent: timedelta,
        witnessed: datetime | None = None,
    ) -> datetime | None:
        return None


class _Foreign(OldClasses):
    """The classes of other kinds, in a process without a driver: that of a manager may migrate any."""

    def __bool__(self) -> bool:
        return True

    def of(self, reference: ClassSpec) -> Resource | None:
        """As ``OldClasses.of``; what its class is served as takes no part in a decision."""
        kind, served = reference.kind, MACHINE_CLASS.resource
        return None if kind in ("", served.kind) else replace(served, kind=kind, plural="")

    def trouble(self, reference: ClassSpec, namespace: str) -> Trouble:
        """As ``OldClasses.trouble``: true of each, whether it is migrated or not."""
        told = f'{reference.kind} "{reference.name}" is no {MACHINE_CLASS.resource.kind}'
        return Trouble(f"{told}, and is not migrated to one")


async def machine(control: Client, target: Client, key: Key, after: timedelta | None) -> DryRun:
    """What the controller of machines would decide now, and next.

    ``after``: how long it is until its next pass, where a manager's record says that; None: as its plans say.

    Raises:
        ApiError, TransportError: the server refused to show machines, sets or classes, or did not answer.
    """
    told = DryRun()
    informers = Informers(control, only=Namespaces((key.namespace,)))
    settings = MachineSettings()
    joined = informers if target is control else Informers(target)
    caches = Caches(informers, joined, settings, _Foreign())
    for kind, cache in (
        (MACHINE, caches.machines),
        (MACHINE_SET, caches.sets),
        (MACHINE_CLASS, caches.classes),
    ):
        await _fill(control, kind, cache, key.namespace)
    found = caches.machines.get(key)
    if found is None:
        return told
    if not await _fill_nodes(target, caches, found, told):
        return told
    await _fill_secrets(control, caches, found, told)
    deps = LookDeps(target=target, caches=caches, clock=control.clock, settings=settings)
    memory = MachineMemory(Moments(control.steady()), deps.settings.unreachable_after)
    seen = await Looker(deps, _NoCalls(), memory).look(found, busy=False)
    seen = replace(seen, unreachable="", watching_since=None, visible_since=None)
    foresight = foresee(seen, after)
    told.decided.append(_decision("machine", foresight.now))
    if foresight.then is not None:
        told.expected.append(Expected(what=outcome(foresight.then), at=foresight.at))
    return told


async def machine_set(control: Client, key: Key) -> DryRun:
    """What the controller of sets would decide. Raises as ``machine``."""
    informers, told = Informers(control, only=Namespaces((key.namespace,))), DryRun()
    index = MemberIndex(informers.get(MACHINE), read, control.steady())
    sets, owners = informers.get(MACHINE_SET), informers.get(MACHINE_DEPLOYMENT)
    for kind, cache in ((MACHINE, index.objects), (MACHINE_SET, sets), (MACHINE_DEPLOYMENT, owners)):
        await _fill(control, kind, cache, key.namespace)
    if (found := sets.get(key)) is not None:
        looker = SetLooker(MACHINE_SETS, index, owners, control.clock)
        memory, complete = Memory(), MACHINE_SETS.with_defaults(found)
        seen = looker.look(complete, memory, looker.pause(complete, memory))
        told.decided.append(_decision("machineset", decide_set(seen)))
    return told


async def machine_deployment(control: Client, key: Key) -> DryRun:
    """What the controller of deployments would decide. Raises as ``machine``."""
    informers, told = Informers(control, only=Namespaces((key.namespace,))), DryRun()
    index = MemberIndex(informers.get(MACHINE), read, control.steady())
    sets, deployments = informers.get(MACHINE_SET), informers.get(MACHINE_DEPLOYMENT)
    sets.index(WITHOUT_CONTROLLER, namespace_if_uncontrolled)
    for kind, cache in ((MACHINE, index.objects), (MACHINE_SET, sets), (MACHINE_DEPLOYMENT, deployments)):
        await _fill(control, kind, cache, key.namespace)
    if (found := deployments.get(key)) is not None:
        seen = look(MACHINE_DEPLOYMENTS, found, sets, index, wall=control.clock.now())
        told.decided.append(_decision("machinedeployment", decide_deployment(seen)))
        if (free := decide_taints(seen)).steps:
            told.decided.append(_decision(MACHINE_TAINT, free))
    return told


DECIDERS: dict[Any, Callable[..., Any]] = {MACHINE_SET: machine_set, MACHINE_DEPLOYMENT: machine_deployment}


def _decision(by: str, plan: Plan[Any]) -> Decision:
    steps = tuple(type(each).__name__ for each in plan.steps)
    return Decision(by=by, source=OBJECTS, because=plan.because, steps=steps)


async def _fill(client: Client, kind: Kind[Any], cache: Informer[Any], namespace: str = "") -> None:
    for each in await client.list(dynamic(kind.resource), namespace):
        _put(kind, cache, each)


def _put(kind: Kind[Any], cache: Informer[Any], found: dict[str, Any]) -> None:
    """Put an object into a cache as if this process had written it: the only way in without a watch."""
    meta = found["metadata"]
    key = Key(meta.get("namespace", ""), meta["name"])
    cache.wrote(Written(kind.resource, key, msgspec.json.encode(found)))


async def _fill_nodes(target: Client, caches: Caches, found: Machine, told: DryRun) -> bool:
    """Fill the caches of nodes and, for a machine that is deleted, volumes. False: they cannot be read."""
    try:
        await _fill(target, NODE, caches.nodes)
        if found.metadata.deleting:
            await _fill(target, VOLUME_ATTACHMENT, caches.attachments)
    except KubewrightError as error:
        told.notes.append(f"nothing was decided here, since nodes or volumes cannot be read: {error}")
        return False
    joined = names.node_name(found.metadata.labels) and caches.node_of(found) is None
    if joined and not any(True for _ in caches.nodes.headers()):
        told.notes.append(
            f"nothing was decided here, since {target.name} has no nodes; name the cluster that the machines "
            "join with --target-kubeconfig"
        )
        return False
    return True


async def _fill_secrets(control: Client, caches: Caches, found: Machine, told: DryRun) -> None:
    """Put a stand-in for each Secret of the class into the cache, if it exists or cannot be read."""
    where = class_key(found)
    if where is None or (of_class := caches.classes.get(where)) is None:
        return
    for key in secret_keys(of_class):
        meta: dict[str, Any] = {
            "namespace": key.namespace,
            "name": key.name,
            "uid": "-",
            "resourceVersion": "1",
        }
        try:
            await control.get(SECRET, key)
        except NotFound:
            continue
        except KubewrightError as error:
            told.notes.append(f"Secret {key} counts as there, since it cannot be read: {error}")
        _put(SECRET, caches.secrets, {"metadata": meta, "data": {"userData": ""}})
