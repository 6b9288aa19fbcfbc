"""One pass over the taints of one deployment's machines. And what enqueues a deployment.

Theory.      Deployment, sets and machines are read by the look of the reconciler of deployments
             (``replicas.deployment``). A deployment that keeps no machine free has a pass when its spec
             changes and when a set comes to it. Changes of its machines count only while one of them has the
             taints: those of a machine that has them, and of all others as long as the last pass saw one.
Invariants.  A machine has one patch in a pass, for the version that was decided on; another one that fails
             stops none.
Called by    ``runtime.controller``; put together by ``machines.world``.
"""

from kubewright.api.diff import merge_patch
from kubewright.api.machine import excess
from kubewright.api.machine.v1alpha1 import MACHINE, Machine, MachineDeployment, MachineSet
from kubewright.api.machine.validate import with_defaults
from kubewright.base import delays
from kubewright.base.clock import Clock
from kubewright.base.errors import KubewrightError
from kubewright.base.plan import Plan
from kubewright.kube.cache import Change
from kubewright.kube.client import Client
from kubewright.kube.informer import Informer
from kubewright.kube.patches import onto
from kubewright.machines.excess.decide import ExcessSeen, KeepFree, counts, decide
from kubewright.machines.machineset.member import MachineMember
from kubewright.machines.settings import MACHINE_TAINT
from kubewright.replicas.deployment.act import Deployments
from kubewright.replicas.objects import key_of
from kubewright.replicas.writes import Stale, error_of, stale_or
from kubewright.runtime.controller import Controller, only, status_alone
from kubewright.runtime.events import EventRecorder
from kubewright.runtime.kernel import Effect, ObjectReconciler, Outcome
from kubewright.runtime.metrics import Metrics
from kubewright.wire.errors import NotFound
from kubewright.wire.gvk import Key

KEEPS_FREE = "keeps-machines-free"
"""The index of the deployments that keep machines free, by their key."""

MachineDeployments = Deployments[MachineDeployment, MachineSet, MachineMember]


class MachineTaints(ObjectReconciler[MachineDeployment, ExcessSeen, Plan[KeepFree]]):
    """The reconciler of the deployments whose machines may be kept free."""

    def __init__(self, deployments: MachineDeployments, control: Client, recorder: EventRecorder) -> None:
        super().__init__(control, deployments.objects, recorder)
        self._deployments = deployments
        self._machines: Informer[Machine] = deployments.index.objects
        deployments.objects.index(KEEPS_FREE, _key_if_it_keeps_free)
        self._with_taints: set[Key] = set()
        """The deployments of which the last pass saw a machine with the taints. The first pass of a process
        over each deployment fills it."""

    def forget(self, key: Key, uid: str) -> None:
        """The deployment is gone, or another one has its name."""
        self._with_taints.discard(key)

    async def look(self, found: MachineDeployment) -> ExcessSeen:
        """As the reconciler of deployments."""
        key, seen = key_of(found), self._deployments.view(found)
        if any(member.free for member in seen.all_members):
            self._with_taints.add(key)
        else:
            self._with_taints.discard(key)
        return seen

    def decide(self, seen: ExcessSeen) -> Plan[KeepFree]:
        """As ``decide.decide``."""
        return decide(seen)

    def act(self, seen: ExcessSeen, step: KeepFree, outcome: Outcome) -> Effect:
        """The one step that there is."""
        return self._taint(step)

    def together(self, step: KeepFree) -> object:
        """All machines are written beside each other."""
        return True

    def after_step(
        self, seen: ExcessSeen, step: KeepFree, error: KubewrightError | None, outcome: Outcome
    ) -> bool:
        """An error stops no other write, and is raised when the pass is over."""
        if error is not None:
            outcome.errors.append(error)
        return True

    async def _taint(self, step: KeepFree) -> None:
        member, machine = step.member, self._machines.get(step.member.key)
        what = f"machine {member.name}"
        if machine is None or machine.metadata.resource_version != member.version:
            raise Stale(f"{what} is no longer the one that was seen")
        spec = merge_patch(machine.spec, excess.kept_free(machine.spec, free=step.free))
        error = await error_of(self.client.patch(MACHINE, member.key, onto({"spec": spec}, machine.metadata)))
        told = None if isinstance(error, NotFound) else stale_or(error, what)
        if told is not None:
            raise told

    def controller(self, clock: Clock, metrics: Metrics | None = None) -> Controller:
        """Workers for this reconciler, which listen to deployments, sets and facts about machines."""
        deployments = self._deployments
        controller = Controller(MACHINE_TAINT, self, clock, metrics=metrics)
        controller.watches(deployments.objects, only(_no_status))
        controller.watches(deployments.sets, self.of_set)
        wait = delays.GATHER_FOR_DEPLOYMENT
        deployments.index.wake(controller, self.of_machine, wait, "a machine has changed")
        return controller

    def of_machine(self, before: MachineMember | None, after: MachineMember | None) -> set[Key]:
        """The deployments for which a change of a machine may move the taints."""
        if _facts(before) == _facts(after):
            return set()
        found = self._deployments.of_member(before, after)
        tainted = any(member is not None and member.free for member in (before, after))
        return found if tainted else self._keeping(found)

    def of_set(self, change: Change[MachineSet]) -> set[Key]:
        """A set comes to a deployment, or leaves it, with its machines: these may have the taints."""
        found = self._deployments.of_set(change)
        owners = [header.owner_uid if header is not None else "" for header in (change.old, change.new)]
        return found if owners[0] != owners[1] else self._keeping(found)

    def _keeping(self, found: set[Key]) -> set[Key]:
        """Those of these deployments that keep machines free, or still have some that are."""
        count = self.objects.count_by
        return {key for key in found if key in self._with_taints or count(KEEPS_FREE, str(key))}


def _key_if_it_keeps_free(found: MachineDeployment) -> tuple[str, ...]:
    return (str(key_of(found)),) if with_defaults(found).spec.excess_replicas is not None else ()


def _no_status(change: Change[MachineDeployment]) -> bool:
    """Whether a change is more than one of status: how many are kept free an annotation may say, too."""
    return not status_alone(change)


def _facts(member: MachineMember | None) -> tuple[object, ...]:
    """What decides about the taints of a machine, and those of others."""
    if member is None:
        return ()
    return (member.uid, member.owner_uid, counts(member), member.free)
