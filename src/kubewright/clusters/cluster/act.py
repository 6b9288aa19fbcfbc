"""One Cluster, one pass on the kernel: what performs each step, its status, and what users are told.

Theory.      All steps are tried; what one of them could not do is kept, shown by the status, and raised at
             the end of the pass, so that the runtime retries it. That an object changed or went meanwhile is
             not shown: the cache will bring it. The status is of a second look, after the steps: the caches
             show our own writes.
Invariants.  A write onto what was read names its version, a deletion its uid. While a cache of a kind that it
             refers to is not read, no status is written.
Called by    ``runtime.controller``; wired by ``wiring``.
"""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from typing import Any, assert_never

from msgspec import to_builtins

from kubewright.api.cluster import names
from kubewright.api.cluster.conditions import CLUSTER_COMPONENT, EventReason, Reason
from kubewright.api.cluster.v1beta1 import CLUSTER, ApiEndpoint, Cluster, ClusterStatus
from kubewright.api.core import SECRET
from kubewright.api.kinds import Kind
from kubewright.api.meta import OwnerReference
from kubewright.base import delays
from kubewright.base.errors import KubewrightError
from kubewright.base.plan import Event, Plan
from kubewright.clusters import paces
from kubewright.clusters.cluster.decide import (
    decide,
    kubeconfig_differs,
    kubeconfig_problem,
    wanted_kubeconfig,
)
from kubewright.clusters.cluster.look import Looker
from kubewright.clusters.cluster.seen import (
    CHILDREN,
    KUBECONFIG,
    AddFinalizer,
    Claim,
    DeleteChild,
    DeleteExternal,
    RemoveFinalizer,
    Seen,
    SetEndpoint,
    Step,
    WriteKubeconfig,
)
from kubewright.clusters.cluster.status import events_of, status_of
from kubewright.kube.errors import MayBeGone
from kubewright.kube.patches import onto
from kubewright.pki.clusters import contents_of
from kubewright.runtime.credentials.values import Found, secret_of
from kubewright.runtime.kernel import Effect, ObjectReconciler, Outcome
from kubewright.runtime.result import Result
from kubewright.runtime.world import Environment
from kubewright.wire.errors import AlreadyExists, ApiError, is_stale
from kubewright.wire.gvk import Key

NO_KUBECONFIG = "NoKubeconfig"
"""The reason of the event about a kubeconfig that cannot be made."""


class Clusters(ObjectReconciler[Cluster, Seen, Plan[Step]]):
    """The reconciler of Clusters."""

    looks_again = True

    def __init__(self, environment: Environment, looker: Looker) -> None:
        recorder = environment.recorder.of(CLUSTER_COMPONENT)
        super().__init__(
            environment.control.client,
            looker.clusters,
            recorder,
            finalizer=names.CLUSTER_FINALIZER,
            pace=paces.CLUSTERS,
        )
        self._looker = looker

    def forget(self, key: Key, uid: str) -> None:
        """The Cluster is gone, or another one has its name."""
        self._looker.forget(key)

    async def look(self, found: Cluster) -> Seen:
        """As ``Looker.look``."""
        return await self._looker.look(found)

    def decide(self, seen: Seen) -> Plan[Step]:
        """As ``decide.decide``."""
        return decide(seen)

    def act(self, seen: Seen, step: Step, outcome: Outcome) -> Effect:
        """What performs a step."""
        namespace = seen.cluster.namespace
        match step:
            case AddFinalizer():
                return self.add_finalizer(outcome)
            case RemoveFinalizer():
                return self._let_go(seen, outcome)
            case SetEndpoint(endpoint):
                spec = {"controlPlaneEndpoint": {"host": endpoint.host, "port": endpoint.port}}
                return self.patch(outcome, {"spec": spec})
            case Claim(_, external, patch):
                assert external.kind is not None, "what was found has a kind"
                return self.client.patch(external.kind, Key(namespace, external.ref.name), patch)
            case WriteKubeconfig():
                return self._write_kubeconfig(seen, step)
            case DeleteChild(child):
                return self._delete(child.kind, Key(namespace, child.name), child.uid)
            case DeleteExternal(_, external):
                assert external.kind is not None, "what was found has a kind"
                return self._delete(external.kind, Key(namespace, external.ref.name), external.uid)

    def together(self, step: Step) -> object:
        """Children are deleted beside each other."""
        return isinstance(step, DeleteChild) or None

    def after_step(self, seen: Seen, step: Step, error: KubewrightError | None, outcome: Outcome) -> bool:
        """An error stops no other step, and is raised when the pass is over."""
        if error is not None:
            outcome.errors.append(error)
            if not is_stale(error):
                about, doing = _words(step)
                outcome.shown[about] = f"could not {doing}: {error}"
        return True

    async def look_again(self, found: Cluster, seen: Seen, outcome: Outcome) -> Seen:
        """As ``look``, with what failed in this pass."""
        return replace(await self._looker.look(found), failed=outcome.shown)

    def tell_problem(self, found: Cluster, seen: Seen) -> None:
        """Tell that the kubeconfig cannot be made, or has another authority than the Cluster."""
        if seen.incomplete:
            return
        problem, differs = kubeconfig_problem(seen), kubeconfig_differs(seen)
        told = (problem or differs) if seen.authority is not None else ""
        reason = Reason.CERTIFICATE_AUTHORITY_DIFFERS if differs else NO_KUBECONFIG
        self.reports.report_problem(found, reason, told)

    def status(self, seen: Seen, plan: Plan[Step], outcome: Outcome) -> ClusterStatus | None:
        """As ``status.status_of``; a kubeconfig with a problem is looked at again in time."""
        if seen.incomplete:
            return None
        if kubeconfig_problem(seen) or kubeconfig_differs(seen):
            outcome.sooner(delays.UNHEARD)
        return status_of(seen)

    def events(self, seen: Seen, plan: Plan[Step], status: Any, *, written: bool) -> Iterable[Event]:
        """What has changed."""
        return events_of(seen.cluster.status, status, seen.cluster.name) if written else ()

    def refused(self, about: Cluster, error: ApiError) -> Result:
        """The status could not be written, or a Secret not be read: the error says when it is tried again.

        Raises:
            ApiError: always.
        """
        raise error

    async def _let_go(self, seen: Seen, outcome: Outcome) -> None:
        """Remove the finalizer, the last step of all."""
        await self.remove_finalizer(outcome)
        message = f"Cluster {seen.cluster.name} has been deleted"
        self.recorder.event(seen.cluster, EventReason.DELETED, message)

    async def _write_kubeconfig(self, seen: Seen, step: WriteKubeconfig) -> None:
        """Create the Secret, or put a new kubeconfig into it; a user's own, which no cache shows, stays."""
        meta, old = seen.cluster.metadata, step.old
        cluster = Key(meta.namespace, meta.name)
        made = kubeconfig_secret(meta.name, seen.owner, step.endpoint, step.authority, seen.now)
        if old is None:
            try:
                answer = await self.client.create(SECRET, made, namespace=meta.namespace)
            except AlreadyExists:
                self._looker.taken(cluster)
                return
        else:
            patch = onto({"data": made["data"]}, old.metadata)
            answer = await self.client.patch(SECRET, Key(meta.namespace, old.metadata.name), patch)
        self._looker.made(cluster, answer)

    async def _delete(self, kind: Kind[Any], key: Key, uid: str) -> None:
        """Delete an object that may be gone already."""
        with MayBeGone(key.name):
            await self.client.delete(kind, key, uid=uid)


def kubeconfig_secret(
    cluster: str, owner: OwnerReference, endpoint: ApiEndpoint, authority: Found, now: datetime
) -> dict[str, Any]:
    """The Secret with the kubeconfig, without a namespace, with a new certificate.

    Raises:
        ValueError: the authority cannot sign (``decide.cannot_sign`` says why).
    """
    wanted = wanted_kubeconfig(cluster, endpoint)
    data = contents_of(wanted, {wanted.authority: authority.pair}, now)
    made = SECRET.to_plain(secret_of(wanted.secret, "", cluster, (), data))
    made["metadata"]["ownerReferences"] = [{**to_builtins(owner), "controller": False}]
    return made


def _words(step: Step) -> tuple[str, str]:
    """What a step is about, and what it does, for messages."""
    match step:
        case AddFinalizer() | RemoveFinalizer() | SetEndpoint():
            return CLUSTER.resource.kind, "write the Cluster"
        case Claim(about, external):
            return about, f"make the Cluster the owner of {external}"
        case DeleteExternal(about, external):
            return about, f"delete {external}"
        case WriteKubeconfig():
            return KUBECONFIG, "write the Secret with the kubeconfig"
        case DeleteChild(child):
            return CHILDREN, f"delete {child.kind_name} {child.name}"
    assert_never(step)
