"""Perform a Cluster's plan: every write of a pass, but for the status, is sent from here.

Theory.      All steps are tried; what one of them could not do is kept, shown by the status, and raised at
             the end of the pass, so that the runtime retries it. That an object changed or went meanwhile is
             not shown: the cache will bring it.
Invariants.  A write onto what was read names its version, a deletion its uid.
Called by    ``wiring``.
"""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, assert_never

from msgspec import to_builtins

from kubewright.api.cluster import names
from kubewright.api.cluster.v1beta1 import CLUSTER, ApiEndpoint
from kubewright.api.core import SECRET
from kubewright.api.kinds import Kind
from kubewright.api.meta import OwnerReference, with_finalizer, without_finalizer
from kubewright.base.errors import KubewrightError
from kubewright.base.plan import Plan
from kubewright.clusters.cluster.decide import wanted_kubeconfig
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
from kubewright.kube.client import Client
from kubewright.kube.errors import MayBeGone
from kubewright.kube.patches import onto
from kubewright.pki.clusters import contents_of
from kubewright.replicas.writes import error_of, run_parallel
from kubewright.runtime.credentials.values import Found, secret_of
from kubewright.wire.errors import AlreadyExists, is_stale
from kubewright.wire.gvk import Key


@dataclass(slots=True)
class Outcome:
    """What a pass did. ``gone``: the Cluster is; ``failed``: what to show, by what it is about."""

    gone: bool = False
    failed: dict[str, str] = field(default_factory=dict)
    errors: list[KubewrightError] = field(default_factory=list)


class Actor:
    """Performs plans of Clusters."""

    def __init__(self, client: Client, looker: Looker) -> None:
        self._client = client
        self._looker = looker

    async def perform(self, seen: Seen, plan: Plan[Step]) -> Outcome:
        """All steps: deletions of children beside each other, the others in order."""
        outcome = Outcome()
        deletions = [step for step in plan.steps if isinstance(step, DeleteChild)]

        async def attempt(step: Step) -> KubewrightError | None:
            error = await error_of(self._step(seen, step))
            if error is not None and not is_stale(error):
                about, doing = _words(step)
                outcome.failed[about] = f"could not {doing}: {error}"
            return error

        for step in plan.steps:
            if not isinstance(step, DeleteChild) and (error := await attempt(step)) is not None:
                outcome.errors.append(error)
        if deletions:
            outcome.errors += await run_parallel(deletions, attempt)
        outcome.gone = not outcome.errors and any(isinstance(step, RemoveFinalizer) for step in plan.steps)
        return outcome

    async def _step(self, seen: Seen, step: Step) -> None:
        meta, client = seen.cluster.metadata, self._client
        key = Key(meta.namespace, meta.name)
        match step:
            case AddFinalizer():
                wanted = with_finalizer(meta.finalizers, names.CLUSTER_FINALIZER)
                await client.patch(CLUSTER, key, onto({"metadata": {"finalizers": wanted}}, meta))
            case RemoveFinalizer():
                left = without_finalizer(meta.finalizers, names.CLUSTER_FINALIZER)
                await client.patch(CLUSTER, key, onto({"metadata": {"finalizers": left or None}}, meta))
            case SetEndpoint(endpoint):
                spec = {"controlPlaneEndpoint": {"host": endpoint.host, "port": endpoint.port}}
                await client.patch(CLUSTER, key, onto({"spec": spec}, meta))
            case Claim(_, external, patch):
                assert external.kind is not None, "what was found has a kind"
                await client.patch(external.kind, Key(meta.namespace, external.ref.name), patch)
            case WriteKubeconfig():
                await self._write_kubeconfig(seen, step)
            case DeleteChild(child):
                await self._delete(child.kind, Key(meta.namespace, child.name), child.uid)
            case DeleteExternal(_, external):
                assert external.kind is not None, "what was found has a kind"
                name = Key(meta.namespace, external.ref.name)
                await self._delete(external.kind, name, external.uid)
            case _:
                assert_never(step)

    async def _write_kubeconfig(self, seen: Seen, step: WriteKubeconfig) -> None:
        """Create the Secret, or put a new kubeconfig into it; a user's own, which no cache shows, stays."""
        meta, old = seen.cluster.metadata, step.old
        cluster = Key(meta.namespace, meta.name)
        made = kubeconfig_secret(meta.name, seen.owner, step.endpoint, step.authority, seen.now)
        if old is None:
            try:
                answer = await self._client.create(SECRET, made, namespace=meta.namespace)
            except AlreadyExists:
                self._looker.taken(cluster)
                return
        else:
            patch = onto({"data": made["data"]}, old.metadata)
            answer = await self._client.patch(SECRET, Key(meta.namespace, old.metadata.name), patch)
        self._looker.made(cluster, answer)

    async def _delete(self, kind: Kind[Any], key: Key, uid: str) -> None:
        """Delete an object that may be gone already."""
        with MayBeGone(key.name):
            await self._client.delete(kind, key, uid=uid)


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
