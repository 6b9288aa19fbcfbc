"""One KubewrightMachineTemplate: its status tells what a node of it will offer, or why there can be none.

Theory.      cluster-autoscaler scales a set from zero by ``status.capacity`` and ``status.nodeInfo`` of the
             template, where no annotation of the set says it. Only the driver can know, and some do
             (``driver.contract.Sizes``). A template never changes, so one answer is enough; where its driver
             or its credentials are its cluster's, it is asked again when these change. A template that its
             driver refuses says so here, before a machine does: in the condition Accepted, and in an event.
             One that nothing ever spoke against has no condition. Where no driver can be asked, for the
             Secret or the KubewrightCluster is not there, the condition is Unknown and says which; if it
             never was another, only when that lasts: the two often come in a moment.
Invariants.  What the driver cannot say is left as it is: a user may have written it.
Called by    ``runtime.controller``; wired by ``world``. The call is awaited by a worker of this controller,
             which has no other work.
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from msgspec import structs

from kubewright.api.cluster.conditions import (
    ERROR,
    false_condition,
    true_condition,
    unknown_condition,
    with_conditions,
)
from kubewright.api.cluster.names import CLUSTER_NAME_LABEL
from kubewright.api.cluster.v1beta1 import CLUSTER, Condition
from kubewright.api.conditions import condition_of
from kubewright.api.core import Secret
from kubewright.api.diff import merge_patch
from kubewright.api.faults import summary
from kubewright.api.infra.names import ConditionReason, ConditionType, EventReason
from kubewright.api.infra.v1beta1 import (
    KUBEWRIGHT_CLUSTER,
    KUBEWRIGHT_MACHINE_TEMPLATE,
    KubewrightCluster,
    KubewrightMachineTemplate,
    KubewrightMachineTemplateStatus,
    NodeInfo,
)
from kubewright.api.infra.validate import validate_machine_template
from kubewright.driver.contract import ClassRequest, Size
from kubewright.driver.errors import DriverError, Unimplemented
from kubewright.infra.caches import Caches, Shared, owner_key, paused
from kubewright.infra.provision import class_request, cloud_owner, effective, missing_source
from kubewright.kube.informer import Change
from kubewright.kube.patches import onto
from kubewright.runtime.controller import Controller, only, spec_or_existence, spec_or_life
from kubewright.runtime.kernel import unless_refused
from kubewright.runtime.result import Result
from kubewright.wire.gvk import Key

WORKERS = 4

AGAIN = timedelta(minutes=10)
"""When a driver is asked again that has refused a template: what it refused may be mended in the cloud."""


class Templates:
    """The reconciler of KubewrightMachineTemplates."""

    def __init__(self, shared: Shared) -> None:
        self._caches = shared.caches
        self._control = shared.control
        self._driver = shared.driver
        self._recorder = shared.recorder
        self._clock = shared.clock
        self._lasting = shared.settings.report_after.total_seconds()
        self._missing_since: dict[Key, float] = {}
        """Since when what a template needs is not there, in monotonic seconds."""

    async def reconcile(self, key: Key) -> Result:
        """One pass.

        Raises:
            DriverError: the driver could not answer now.
            ApiError, TransportError: the API server said no for now, or could not be asked.
        """
        template = self._caches.templates.get(key)
        found = self._resolve(template) if template is not None else None
        left = self._left(key, template, found)
        if template is None or found is None:
            return Result.done()
        if left > 0:
            return Result.later(timedelta(seconds=left))
        answer = await self._asked(found) if isinstance(found, ClassRequest) else found
        after = template_status(template.status, answer, self._clock.now())
        patch = merge_patch(template.status, after)
        if patch and isinstance(answer, Refused):
            self._recorder.event(template, EventReason.FAILED_VALIDATION, answer.problem, warning=True)
        result = Result.later(AGAIN) if isinstance(answer, Refused) else Result.done()
        if not patch:
            return result
        return result.sooner(await unless_refused(self._write(template, patch), template, self._recorder))

    def _left(
        self,
        key: Key,
        template: KubewrightMachineTemplate | None,
        found: "ClassRequest | Refused | Missing | None",
    ) -> float:
        """Seconds for which nothing is said yet of what is missing."""
        if template is None or not isinstance(found, Missing):
            self._missing_since.pop(key, None)
            return 0.0
        now = self._clock.monotonic()
        since = self._missing_since.setdefault(key, now)
        known = condition_of(template.status.conditions, ConditionType.ACCEPTED) is not None
        return 0.0 if known else since + self._lasting - now

    async def _write(self, template: KubewrightMachineTemplate, patch: dict[str, Any]) -> Result:
        key, body = Key(template.namespace, template.name), onto({"status": patch}, template.metadata)
        await self._control.patch(KUBEWRIGHT_MACHINE_TEMPLATE, key, body, subresource="status")
        return Result.done()

    async def _asked(self, request: ClassRequest) -> "Answer":
        """What the driver says of machines of a template."""
        try:
            with suppress(Unimplemented):
                await self._driver.validate(request)
        except DriverError as error:
            if not error.refuses:
                raise
            return Refused(error.message)
        try:
            return await self._driver.size(request)
        except DriverError as error:
            if not error.refuses:
                raise
            return None  # the size is not known, and machines may be made all the same

    def _resolve(self, template: KubewrightMachineTemplate) -> "ClassRequest | Refused | Missing | None":
        """What the driver is told, or why it cannot be called; None where it need not be."""
        meta, spec = template.metadata, template.spec.template.spec
        owner = owner_key(meta, CLUSTER)
        cluster = self._caches.core_clusters.get(owner) if owner is not None else None
        shared, absent = None, ""
        if cluster is not None:
            shared, absent = self._caches.infrastructure_of(meta, cluster)
        provision = effective(spec, shared.spec if shared is not None else None, None)
        credentials, missing = self._caches.credentials(meta.namespace, provision.credentials_ref)
        if meta.deleting or paused(meta, cluster):
            return None
        if absent := missing_source(spec, absent):
            return Missing(absent, ConditionReason.WAITING_FOR_CLUSTER_INFRASTRUCTURE)
        if missing:
            return Missing(missing, ConditionReason.WAITING_FOR_CREDENTIALS)
        if problem := summary(validate_machine_template(template)) or self._driver.problem(provision.driver):
            return Refused(problem)
        name = owner.name if owner and shared else meta.name
        known = cloud_owner(KUBEWRIGHT_CLUSTER, shared.metadata) if owner and shared else ""
        return class_request(provision, meta.namespace, name, known, Secret(data=credentials.data))


@dataclass(frozen=True, slots=True)
class Refused:
    """No machine can be made of a template, for this reason."""

    problem: str


@dataclass(frozen=True, slots=True)
class Missing:
    """No driver can be asked whether machines can be made of a template: what that needs is not there."""

    problem: str
    reason: ConditionReason


Answer = Size | Refused | Missing | None
"""What is known of machines of a template: what a node offers; why none can be made, or what is missing;
nothing."""


def template_status(
    before: KubewrightMachineTemplateStatus, answer: Answer, now: datetime
) -> KubewrightMachineTemplateStatus:
    """The status of a template of which this is known; what is not known stays. Pure."""
    told: Condition | None = None
    if isinstance(answer, Refused):
        told = false_condition(
            ConditionType.ACCEPTED, ConditionReason.INVALID_CONFIGURATION, ERROR, answer.problem
        )
    elif isinstance(answer, Missing):
        told = unknown_condition(ConditionType.ACCEPTED, answer.reason, answer.problem)
    elif condition_of(before.conditions, ConditionType.ACCEPTED) is not None:
        told = true_condition(ConditionType.ACCEPTED)
    if told is not None:
        before = structs.replace(before, conditions=with_conditions(before.conditions, (told,), now))
    return _sized(before, answer) if isinstance(answer, Size) else before


def _sized(before: KubewrightMachineTemplateStatus, size: Size) -> KubewrightMachineTemplateStatus:
    info = before.node_info or NodeInfo()
    known = NodeInfo(
        architecture=size.architecture or info.architecture,
        operating_system=size.operating_system or info.operating_system,
    )
    return structs.replace(
        before,
        capacity=dict(size.capacity) or before.capacity,
        node_info=known if known != NodeInfo() else before.node_info,
    )


def wire(shared: Shared) -> Controller:
    """The controller, listening to the templates and to what they leave to their clusters."""
    caches = shared.caches
    reconciler = Templates(shared)
    controller = Controller(
        "kubewrightmachinetemplate", reconciler, shared.clock, workers=WORKERS, metrics=shared.metrics
    )
    controller.watches(caches.templates, only(spec_or_life))
    controller.watches(caches.clusters, only(spec_or_life, lambda change: _of_cluster(caches, change)))
    controller.watches(
        caches.core_clusters,  # the end of a pause
        only(spec_or_existence, lambda change: caches.templates.keys_by("owner-cluster", str(change.key))),
    )
    controller.watches(caches.secrets, lambda change: _of_secret(caches, change.key))
    return controller


def _of_secret(caches: Caches, secret: Key) -> Iterator[Key]:
    """The templates that take their credentials from a Secret, by themselves or by their cluster."""
    yield from caches.templates.keys_by("credentials", str(secret))
    for cluster in caches.clusters.by("credentials", str(secret)):
        yield from _owned_with(caches, cluster)


def _of_cluster(caches: Caches, change: Change[KubewrightCluster]) -> tuple[Key, ...]:
    """The templates of the Cluster of a KubewrightCluster."""
    found = change.after() or change.before()
    return _owned_with(caches, found) if found is not None else ()


def _owned_with(caches: Caches, cluster: KubewrightCluster) -> tuple[Key, ...]:
    """By its owner, or by its label: one that has the label from the start counts before it is claimed."""
    meta = cluster.metadata
    owner = owner_key(meta, CLUSTER) or Key(meta.namespace, meta.labels.get(CLUSTER_NAME_LABEL, ""))
    return caches.templates.keys_by("owner-cluster", str(owner)) if owner.name else ()
