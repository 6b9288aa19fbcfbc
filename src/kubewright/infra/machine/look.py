"""Look at one KubewrightMachine: the caches, and what is known of the calls about its VM.

Theory.      ``Seen`` holds no secret: what the driver is told is made again when its call begins, from the
             objects as they are then. Here it is only found out whether that can be done.
Called by    ``act``.
"""

from datetime import datetime

from kubewright.api.cluster import names
from kubewright.api.cluster.v1beta1 import Cluster, Machine
from kubewright.api.faults import summary
from kubewright.api.infra.v1beta1 import KUBEWRIGHT_CLUSTER, KubewrightMachine
from kubewright.api.infra.validate import validate_machine
from kubewright.base import delays
from kubewright.base.errors import KubewrightError, Retry
from kubewright.driver.contract import MachineRequest
from kubewright.driver.life.calls import VmCalls
from kubewright.driver.life.seen import Verb
from kubewright.infra.caches import Shared, paused, untold
from kubewright.infra.machine.seen import Seen
from kubewright.infra.provision import (
    ResolvedRequest,
    class_request,
    cloud_owner,
    domain_of,
    effective,
    machine_request,
    missing_source,
    with_data,
)
from kubewright.wire.gvk import Key

CLOUD_CONFIG = "cloud-config"
"""What bootstrap data is when its Secret does not say."""


class CannotTell(KubewrightError):
    """What the driver must be told is not there any more; the next pass says what is missing."""

    retry: Retry = delays.OVERTAKEN


class Looker:
    """Makes ``Seen``, and the requests of calls."""

    def __init__(self, shared: Shared, calls: VmCalls) -> None:
        self._caches = shared.caches
        self._driver = shared.driver
        self._settings = shared.settings
        self._one_clock = shared.control.one_clock
        self._calls = calls

    def look(self, machine: KubewrightMachine, created: datetime | None, now: datetime) -> Seen:
        """Everything. ``created`` is when this process saw the object appear; None: it was there before."""
        owner = self._caches.machine_of(machine)
        cluster = self._cluster(machine, owner)
        resolved = self._resolve(machine, owner, cluster)
        shared, _ = self._caches.infrastructure_of(machine.metadata, cluster)
        uid = machine.metadata.uid
        original = self._caches.original_of_machine(machine)
        return Seen(
            machine=machine,
            settings=self._settings,
            now=now,
            owner=owner,
            cluster=cluster,
            infrastructure=shared.metadata if shared is not None else None,
            original=_named(original, machine.namespace),
            paused=paused(machine.metadata, cluster),
            vm=self._calls.seen(uid),
            problem=resolved.problem,
            source_missing=resolved.source_missing,
            data_problem=self._data(owner)[2],
            inputs=resolved.version,
            console=self._calls.console(uid),
            doubt_until=self._calls.doubt_until(
                uid,
                created=created or machine.metadata.creation_timestamp,
                recorded=bool(machine.spec.provider_id),
                confirm_absent=self._settings.confirm_absent,
                witnessed=created if self._one_clock else None,
            ),
        )

    def request(self, machine: KubewrightMachine, verb: Verb, state: str) -> MachineRequest:
        """What the driver is told in a call that begins now.

        Raises:
            CannotTell: a Secret is gone since the machine was looked at.
        """
        owner = self._caches.machine_of(machine)
        resolved = self._resolve(machine, owner, self._cluster(machine, owner))
        if resolved.problem:
            raise CannotTell(resolved.problem)
        request = machine_request(resolved.request, machine, state)
        if verb is not Verb.ENSURE:
            return request
        data, data_format, problem = self._data(owner)
        if problem:
            raise CannotTell(problem)
        return with_data(request, data, data_format, owner)

    async def read_console(self, machine: KubewrightMachine) -> str:
        """The end of what its VM wrote to its console.

        Raises:
            CannotTell: a Secret is gone since the machine was looked at.
            DriverError: the driver cannot show it.
        """
        return await self._driver.console(self.request(machine, Verb.LOOK, machine.status.last_known_state))

    def _cluster(self, machine: KubewrightMachine, owner: Machine | None) -> Cluster | None:
        """By the Machine, or by the label where the Machine is gone or does not say it readably."""
        label = machine.metadata.labels.get(names.CLUSTER_NAME_LABEL, "")
        name = owner.spec.cluster_name if owner is not None else ""
        return self._caches.cluster_named(machine.namespace, name or label)

    def _resolve(
        self, machine: KubewrightMachine, owner: Machine | None, cluster: Cluster | None
    ) -> ResolvedRequest:
        shared, absent = self._caches.infrastructure_of(machine.metadata, cluster)
        wanted, release = (owner.spec.failure_domain, owner.spec.version) if owner is not None else (None, "")
        domain, misplaced = domain_of(shared, machine.spec.failure_domain or wanted)
        provision = effective(machine.spec, shared.spec if shared is not None else None, domain)
        credentials, missing = self._caches.credentials(machine.namespace, provision.credentials_ref)
        untellable = untold(self._caches.machines, Key(machine.namespace, machine.name))
        missing = untellable or missing_source(machine.spec, absent) or missing
        known = cloud_owner(KUBEWRIGHT_CLUSTER, shared.metadata) if shared is not None else ""
        name = machine.metadata.labels.get(names.CLUSTER_NAME_LABEL, "") or (cluster.name if cluster else "")
        wrong = summary(validate_machine(machine)) or self._driver.problem(provision.driver)
        versions = (machine.metadata.generation, shared.metadata.generation if shared is not None else 0)
        return ResolvedRequest(
            class_request(provision, machine.namespace, name, known, credentials),
            wrong or missing or ("" if machine.spec.provider_id else misplaced),
            f"{versions[0]}/{versions[1]}/{wanted}/{release}/{credentials.metadata.resource_version}",
            bool(missing),
        )

    def _data(self, owner: Machine | None) -> tuple[bytes, str, str]:
        """The bootstrap data, its format, and why there is none although the Machine names a Secret.

        An empty name means that there is nothing to bootstrap, and so do empty data (S0-19).
        """
        name = owner.spec.bootstrap.data_secret_name if owner is not None else None
        if owner is None or not name:
            return b"", CLOUD_CONFIG, ""
        secret = self._caches.secret(owner.namespace, name)
        if secret is None:
            return b"", "", f"there is no Secret {name}, which the Machine names as its bootstrap data"
        if names.SECRET_VALUE_KEY not in secret.data:
            return b"", "", f"Secret {name} has no key {names.SECRET_VALUE_KEY}, which bootstrap data needs"
        kind = secret.data.get(names.SECRET_FORMAT_KEY, b"").decode(errors="replace") or CLOUD_CONFIG
        return secret.data[names.SECRET_VALUE_KEY], kind, ""


def _named(key: Key | None, namespace: str) -> str:
    """An object as seen from this namespace; empty where there is none."""
    return "" if key is None else key.name if key.namespace == namespace else str(key)
