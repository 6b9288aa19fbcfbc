"""One KubeadmConfig, one pass: what is written, and what its status says of that.

Theory.      The spec is written before the data, and the data before the status: what is reported is there. A
             status that only says what is still waited for is written when that lasts (``decide.underway``).
             Every patch names the uid and the version of what was seen.
Invariants.  No PUT. A Secret with certificates is only ever created. What a server says about a Secret is not
             repeated: it may quote what is in it. A write that is refused for good is shown in a condition,
             and the machine gives up the init lock.
Called by    ``wiring``, ``runtime.controller``.
"""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from functools import partial

import structlog
from msgspec import to_builtins

from kubewright.api.bootstrap.names import lock_name
from kubewright.api.bootstrap.v1beta1 import KUBEADM_CONFIG, KubeadmConfig, KubeadmConfigStatus
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
from kubewright.api.meta import OwnerReference
from kubewright.base import delays
from kubewright.base.errors import KubewrightError
from kubewright.bootstrap import lock
from kubewright.bootstrap.decide import decide, failed, status_of, underway
from kubewright.bootstrap.joining import Joining
from kubewright.bootstrap.look import Looker, cluster_of
from kubewright.bootstrap.seen import (
    KeepToken,
    MakeCertificates,
    OwnData,
    PatchSpec,
    Plan,
    ReleaseLock,
    Report,
    Seen,
    Step,
    TakeLock,
    WriteData,
)
from kubewright.bootstrap.token_calls import TokenCalls
from kubewright.kube.client import Client
from kubewright.kube.errors import MayBeGone
from kubewright.kube.informer import Informer
from kubewright.kube.patches import Contested, onto, with_uid
from kubewright.pki.clusters import new_pair
from kubewright.pki.credentials import Purpose, data_of, secret_name
from kubewright.runtime.credentials.contents import in_thread_if_slow
from kubewright.runtime.credentials.values import secret_of
from kubewright.runtime.events import EventRecorder
from kubewright.runtime.kernel import Effect, ObjectReconciler, Outcome
from kubewright.runtime.pace import Pace
from kubewright.runtime.result import Result
from kubewright.wire.errors import AlreadyExists, ApiError, Conflict, is_refusal
from kubewright.wire.gvk import Key

log = structlog.get_logger(__name__)


class _Taken(KubewrightError):
    """The name of the data Secret is taken by one of another; the message says by whose."""


PACE = Pace(delays.WORDS_SECONDS, only_waiting=underway)
"""A status that only says what is waited for is written when that lasts."""
REFUSED, TAKEN = "write", "name"
"""What ended a plan: a write that was refused, or the name of the data Secret."""


class KubeadmConfigs(ObjectReconciler[KubeadmConfig, Seen, Plan]):
    """The reconciler of KubeadmConfigs."""

    def __init__(
        self,
        client: Client,
        configs: Informer[KubeadmConfig],
        recorder: EventRecorder,
        looker: Looker,
        token_calls: TokenCalls,
    ) -> None:
        super().__init__(client, configs, recorder, pace=PACE)
        self._looker = looker
        self._token_calls = token_calls

    def forget(self, key: Key, uid: str) -> None:
        """The KubeadmConfig is gone for good."""
        self._token_calls.forget(key)
        self._looker.forget(key)

    async def look(self, found: KubeadmConfig) -> Seen:
        """As ``Looker.look``."""
        return await self._looker.look(found)

    def decide(self, seen: Seen) -> Plan:
        """As ``decide.decide``."""
        return decide(seen)

    def act(self, seen: Seen, step: Step, outcome: Outcome) -> Effect:
        """What performs a step."""
        match step:
            case OwnData():
                return self._own_data(seen)
            case TakeLock():
                return self._take_lock(seen)
            case ReleaseLock(uid):
                return self._release_lock(seen, uid)
            case MakeCertificates(purposes):
                return self._make_certificates(seen, purposes)
            case PatchSpec(spec):
                return self.patch(outcome, {"spec": merge_patch(seen.config.spec, spec)})
            case KeepToken(token):
                assert seen.machine is not None, "a token is for a machine"
                self._token_calls.keep(config_key(seen), cluster_of(seen.machine), token, joining_of(seen))
                return None
            case WriteData():
                return self._write_data(seen, step)

    def after_step(self, seen: Seen, step: Step, error: KubewrightError | None, outcome: Outcome) -> bool:
        """A write that is refused for good ends the plan, and is shown."""
        if isinstance(error, _Taken):
            outcome.shown[TAKEN] = str(error)
        elif isinstance(error, ApiError) and is_refusal(error):
            outcome.shown[REFUSED] = told = _refusal(step, error)
            log.warning("refused", config=str(config_key(seen)), problem=told)
        else:
            return super().after_step(seen, step, error, outcome)
        outcome.wake = delays.UNHEARD
        return False

    def status(self, seen: Seen, plan: Plan, outcome: Outcome) -> KubeadmConfigStatus | None:
        """The status with what the plan reports, or with what ended it."""
        before, report = seen.config.status, plan.report or (Report() if seen.config.status.ready else None)
        if wrong := outcome.shown.get(REFUSED) or outcome.shown.get(TAKEN):
            report = Report((failed(wrong),))
        return None if report is None else status_of(before, report, outcome.meta.generation, seen.now)

    async def report(self, found: KubeadmConfig, seen: Seen, plan: Plan, outcome: Outcome) -> Result | None:
        """As every report; where a write was refused, others may take the init lock after it."""
        again = await super().report(found, seen, plan, outcome)
        for each in plan.unless_done if REFUSED in outcome.shown else ():
            self._looker.gave_up(config_key(seen))
            await self._release_lock(seen, each.uid)
        return again

    def refused(self, about: KubeadmConfig, error: ApiError) -> Result:
        """What is refused beside the steps has no condition: the log tells."""
        raise error

    async def _own_data(self, seen: Seen) -> None:
        assert seen.secret is not None, "the step is for a Secret that is there"
        meta = seen.secret.metadata
        mine = owner(seen)
        others = [each for each in meta.owner_references if not each.controller and each.uid != mine.uid]
        body = onto({"metadata": {"ownerReferences": to_builtins((*others, mine))}}, meta)
        await self.client.patch(SECRET, config_key(seen), body)

    async def _take_lock(self, seen: Seen) -> None:
        assert seen.cluster is not None
        assert seen.machine is not None
        made = lock.config_map(seen.cluster, seen.machine.metadata.name)
        await self.client.create(CONFIG_MAP, made)
        log.info("took the init lock", cluster=seen.cluster.metadata.name, machine=seen.machine.metadata.name)

    async def _release_lock(self, seen: Seen, uid: str) -> None:
        assert seen.cluster is not None
        key = Key(seen.cluster.metadata.namespace, lock_name(seen.cluster.metadata.name))
        with MayBeGone(key.name), suppress(Conflict):  # another machine has taken the lock since
            await self.client.delete(CONFIG_MAP, key, uid=uid)

    async def _make_certificates(self, seen: Seen, purposes: Iterable[Purpose]) -> None:
        for purpose in purposes:
            await self._make_certificate(seen, purpose)

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
            self._looker.made(await self.client.create(SECRET, secret))
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
                self._looker.read_data(config_key(seen), await self.client.create(SECRET, secret))
            except AlreadyExists:
                there = await self.client.get(SECRET, config_key(seen))
                if told := replace(seen, secret=there).not_ours:
                    raise _Taken(told) from None
        if there is not None:
            plain = SECRET.to_plain(secret)
            body = {"metadata": {"labels": plain["metadata"]["labels"]}, "data": plain["data"]}
            answer = await self.client.patch(SECRET, config_key(seen), with_uid(body, there.metadata.uid))
            self._looker.read_data(config_key(seen), answer)
        log.info("made bootstrap data", config=str(config_key(seen)), role=seen.role.value)


_DOING: dict[type[Step], str] = {
    OwnData: "make the KubeadmConfig the owner of its data Secret",
    TakeLock: "create the init lock",
    ReleaseLock: "delete the init lock",
    MakeCertificates: "create the cluster's certificates",
    PatchSpec: "fill in the KubeadmConfig's spec",
    KeepToken: "keep a bootstrap token",
    WriteData: "write the data Secret",
}


def _refusal(step: Step, error: ApiError) -> str:
    """Which write the server refuses, without its words, which may quote a Secret; or why it is withheld."""
    doing = _DOING[type(step)]
    if isinstance(error, Contested):
        return f"it is not tried for now to {doing}: {error}"
    return f"the API server refuses to {doing}: {error.code} {error.reason}"


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
