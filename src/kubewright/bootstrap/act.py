"""Perform a KubeadmConfig's plan: send its steps, then write the status.

Theory.      Steps run in order and stop at the first failure; the status comes after them, in one patch, when
             it says something new, or when what is waited for lasts (``status.underway``). The spec is
             written before the data, and the data before the status, so what is reported is there. Every
             patch names the uid and the version of what was seen.
Invariants.  No PUT. A Secret with certificates is only ever created. What a server says about a Secret is not
             repeated: it may quote what is in it. A write that is refused for good is shown in a condition,
             and the machine gives up the init lock.
Called by    ``reconciler``.
"""

from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import assert_never

import structlog
from msgspec import to_builtins

from kubewright.api.bootstrap.names import lock_name
from kubewright.api.bootstrap.v1beta1 import KUBEADM_CONFIG
from kubewright.api.cluster.names import (
    SECRET_FORMAT_KEY,
    SECRET_VALUE_KEY,
    SERVICE_CIDR,
    SERVICE_DOMAIN,
)
from kubewright.api.cluster.v1beta1 import CLUSTER, ClusterNetwork
from kubewright.api.controlplane.v1alpha4 import NESTED_CONTROL_PLANE
from kubewright.api.core import CONFIG_MAP, SECRET
from kubewright.api.diff import merge_patch
from kubewright.api.meta import ObjectMeta, OwnerReference
from kubewright.base import delays
from kubewright.base.errors import KubewrightError
from kubewright.bootstrap import lock
from kubewright.bootstrap.joining import Joining
from kubewright.bootstrap.look import Looker, cluster_of
from kubewright.bootstrap.seen import Seen
from kubewright.bootstrap.status import failed, status_of
from kubewright.bootstrap.steps import (
    KeepToken,
    MakeCertificates,
    OwnData,
    PatchSpec,
    Plan,
    ReleaseLock,
    Report,
    Step,
    TakeLock,
    WriteData,
)
from kubewright.bootstrap.token_calls import TokenCalls
from kubewright.kube.client import Client
from kubewright.kube.errors import MayBeGone
from kubewright.kube.patches import Contested, onto, with_uid
from kubewright.pki.clusters import new_pair
from kubewright.pki.credentials import Purpose, data_of, secret_name
from kubewright.runtime.credentials.contents import in_thread_if_slow
from kubewright.runtime.credentials.values import secret_of
from kubewright.runtime.reports import Reports
from kubewright.runtime.result import Result
from kubewright.wire.errors import AlreadyExists, ApiError, Conflict, is_refusal
from kubewright.wire.gvk import Key

log = structlog.get_logger(__name__)


class _Taken(KubewrightError):
    """The name of the data Secret is taken by one of another; the message says by whose."""


class Actor:
    """Performs plans."""

    def __init__(self, client: Client, looker: Looker, token_calls: TokenCalls, reports: Reports) -> None:
        self._client = client
        self._looker = looker
        self._token_calls = token_calls
        self._reports = reports

    async def perform(self, seen: Seen, plan: Plan) -> Result:
        """All steps, then the status.

        Raises:
            ApiError, TransportError: the server failed a request for now, or could not be asked.
        """
        meta = seen.config.metadata
        for step in plan.steps:
            try:
                meta = await self._step(seen, step) or meta
            except ApiError as error:
                if not is_refusal(error):
                    raise
                again = await self._refused(seen, meta, step, error)
                for each in plan.unless_done:
                    self._looker.gave_up(config_key(seen))
                    await self._release_lock(seen, each.uid)
                return again
            except _Taken as taken:
                again = await self._report(seen, meta, Report((failed(str(taken)),)))
                return again.sooner(Result.later(delays.UNHEARD))
        report = plan.report or (Report() if seen.config.status.ready else None)
        result = Result.later(plan.wake)
        return result if report is None else result.sooner(await self._report(seen, meta, report))

    async def _step(self, seen: Seen, step: Step) -> ObjectMeta | None:
        """One step; the metadata of the KubeadmConfig, if that was written."""
        match step:
            case OwnData():
                await self._own_data(seen)
            case TakeLock():
                await self._take_lock(seen)
            case ReleaseLock(uid):
                await self._release_lock(seen, uid)
            case MakeCertificates(purposes):
                for purpose in purposes:
                    await self._make_certificate(seen, purpose)
            case PatchSpec(spec):
                config = seen.config
                body = onto({"spec": merge_patch(config.spec, spec)}, config.metadata)
                return (await self._client.patch(KUBEADM_CONFIG, config_key(seen), body)).metadata
            case KeepToken(token):
                assert seen.machine is not None, "a token is for a machine"
                self._token_calls.keep(config_key(seen), cluster_of(seen.machine), token, joining_of(seen))
            case WriteData():
                await self._write_data(seen, step)
            case _:
                assert_never(step)
        return None

    async def _own_data(self, seen: Seen) -> None:
        assert seen.secret is not None, "the step is for a Secret that is there"
        meta = seen.secret.metadata
        mine = owner(seen)
        others = [each for each in meta.owner_references if not each.controller and each.uid != mine.uid]
        body = onto({"metadata": {"ownerReferences": to_builtins((*others, mine))}}, meta)
        await self._client.patch(SECRET, config_key(seen), body)

    async def _take_lock(self, seen: Seen) -> None:
        assert seen.cluster is not None
        assert seen.machine is not None
        made = lock.config_map(seen.cluster, seen.machine.metadata.name)
        await self._client.create(CONFIG_MAP, made)
        log.info("took the init lock", cluster=seen.cluster.metadata.name, machine=seen.machine.metadata.name)

    async def _release_lock(self, seen: Seen, uid: str) -> None:
        assert seen.cluster is not None
        key = Key(seen.cluster.metadata.namespace, lock_name(seen.cluster.metadata.name))
        with MayBeGone(key.name), suppress(Conflict):  # another machine has taken the lock since
            await self._client.delete(CONFIG_MAP, key, uid=uid)

    async def _make_certificate(self, seen: Seen, purpose: Purpose) -> None:
        """Make a pair and create its Secret; a Secret that is there already stays as it is."""
        assert seen.cluster is not None
        cluster, algorithm = seen.cluster.metadata, seen.settings.algorithm
        pair = await in_thread_if_slow(partial(new_pair, purpose, seen.now, algorithm), algorithm)
        by_cluster = OwnerReference(
            api_version=CLUSTER.resource.api_version,
            kind=CLUSTER.resource.kind,
            name=cluster.name,
            uid=cluster.uid,
        )
        owners = (owner(seen), by_cluster)  # it stays when the first machine goes
        name, data = secret_name(cluster.name, purpose), data_of(pair.certificate, pair.key)
        secret = secret_of(name, cluster.namespace, cluster.name, owners, data)
        try:
            self._looker.made(await self._client.create(SECRET, secret))
        except AlreadyExists:
            self._looker.taken(Key(secret.metadata.namespace, secret.metadata.name))
            return
        log.info("made a certificate", cluster=cluster.name, purpose=purpose.value)

    async def _write_data(self, seen: Seen, step: WriteData) -> None:
        """Create the Secret with the data, or put the data into the one that is there.

        Raises:
            _Taken: one that no cache shows, since it lacks the cluster's label, is there and is not ours.
        """
        assert seen.cluster is not None
        meta = seen.config.metadata
        data = {SECRET_VALUE_KEY: step.text.encode(), SECRET_FORMAT_KEY: step.format.encode()}
        cluster = seen.cluster.metadata.name
        secret = secret_of(meta.name, meta.namespace, cluster, (owner(seen),), data)
        if (there := seen.secret) is None:
            try:
                self._looker.read_data(config_key(seen), await self._client.create(SECRET, secret))
            except AlreadyExists:
                there = await self._client.get(SECRET, config_key(seen))
                if told := replace(seen, secret=there).not_ours:
                    raise _Taken(told) from None
        if there is not None:
            plain = SECRET.to_plain(secret)
            body = {"metadata": {"labels": plain["metadata"]["labels"]}, "data": plain["data"]}
            answer = await self._client.patch(SECRET, config_key(seen), with_uid(body, there.metadata.uid))
            self._looker.read_data(config_key(seen), answer)
        log.info("made bootstrap data", config=str(config_key(seen)), role=seen.role.value)

    async def _report(self, seen: Seen, meta: ObjectMeta, report: Report) -> Result:
        """Write the status, if it says something new; returns when to look again."""
        before = seen.config.status
        status = status_of(before, report, meta.generation, seen.now)
        _, again = await self._reports.write(meta, before, status)
        return again

    async def _refused(self, seen: Seen, meta: ObjectMeta, step: Step, error: ApiError) -> Result:
        """Say which write the server refuses, without its words, which may quote a Secret; or why it is
        withheld."""
        doing = _DOING[type(step)]
        told = f"the API server refuses to {doing}: {error.code} {error.reason}"
        if isinstance(error, Contested):
            told = f"it is not tried for now to {doing}: {error}"
        log.warning("refused", config=str(config_key(seen)), problem=told)
        again = await self._report(seen, meta, Report((failed(told),)))
        return again.sooner(Result.later(delays.UNHEARD))


_DOING: dict[type[Step], str] = {
    OwnData: "make the KubeadmConfig the owner of its data Secret",
    TakeLock: "create the init lock",
    ReleaseLock: "delete the init lock",
    MakeCertificates: "create the cluster's certificates",
    PatchSpec: "fill in the KubeadmConfig's spec",
    KeepToken: "keep a bootstrap token",
    WriteData: "write the data Secret",
}


def joining_of(seen: Seen) -> Joining | None:
    """What machines are told of a cluster whose control plane runs on no machine; None of others.

    The certificates were read only where data is to be made, and that is when it is needed.
    """
    spec = seen.cluster.spec if seen.cluster is not None else None
    ref, pair = spec.control_plane_ref if spec is not None else None, seen.pairs.get(Purpose.CA)
    kind = NESTED_CONTROL_PLANE.resource
    if spec is None or ref is None or pair is None or (ref.group, ref.kind) != (kind.group, kind.kind):
        return None
    endpoint, network = spec.control_plane_endpoint, spec.cluster_network or ClusterNetwork()
    if seen.cluster is None or endpoint is None or not endpoint.valid:
        return None
    services, pods = (
        ",".join(each.cidr_blocks) if each is not None else "" for each in (network.services, network.pods)
    )
    return Joining(
        str(endpoint),
        pair.certificate,
        seen.cluster.name,
        services or SERVICE_CIDR,
        pods,
        network.service_domain or SERVICE_DOMAIN,
    )


def owner(seen: Seen) -> OwnerReference:
    """The reference by which the KubeadmConfig controls what it makes."""
    meta, resource = seen.config.metadata, KUBEADM_CONFIG.resource
    return OwnerReference(
        api_version=resource.api_version, kind=resource.kind, name=meta.name, uid=meta.uid, controller=True
    )


def config_key(seen: Seen) -> Key:
    """Where the KubeadmConfig is."""
    meta = seen.config.metadata
    return Key(meta.namespace, meta.name)
