"""Make what a driver is told about one machine, and its bootstrap token with it.

Theory.      A request is made when its call begins, beside the workers: the class and its secrets
             as they are then, and the user data filled in. A token is made for creations only; it
             is the machine's own, found again by its name, and its end is moved with every try. A Secret of
             that name whose description tells of another machine is neither changed nor deleted.
Invariants.  Secrets go into the request and nowhere else. No request is made without the class's secrets: a
             driver could find credentials of another account elsewhere.
Source       mcm.md §3.1, §4.6.
Called by    ``act``.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

from msgspec import structs

from kubewright.api.core import SECRET, Secret
from kubewright.api.machine.v1alpha1 import Machine
from kubewright.base.clock import Clock, rfc3339
from kubewright.base.errors import KubewrightError
from kubewright.driver.contract import MachineRequest
from kubewright.driver.life.seen import Verb
from kubewright.kube.client import Client
from kubewright.kube.errors import MayBeGone
from kubewright.kube.patches import with_uid
from kubewright.machines.caches import Caches
from kubewright.machines.machine import userdata
from kubewright.machines.settings import MachineSettings
from kubewright.wire.errors import AlreadyExists
from kubewright.wire.gvk import Key


class Incomplete(KubewrightError):
    """What a driver must be told is not there, or not this machine's; the next pass says so, and waits."""


class Requests:
    """Makes requests; ``target`` is where the VMs' kubelets will join."""

    def __init__(self, caches: Caches, target: Client, clock: Clock, settings: MachineSettings) -> None:
        self._caches = caches
        self._target = target
        self._clock = clock
        self._settings = settings

    async def make(self, machine: Machine, verb: Verb, valid_for: timedelta) -> MachineRequest:
        """The request for a call. ``valid_for`` is how long a token must be valid.

        Raises:
            Incomplete: the class or a secret has gone since the call was planned, or the token is another's.
            ApiError, TransportError: the token could not be made.
        """
        found = self._caches.class_of(machine)
        machine_class, creates = found.machine_class, verb is Verb.ENSURE
        if machine_class is None or found.secret_missing or (creates and found.problem):
            raise Incomplete(found.problem)
        secret = found.secret
        if creates and (raw := secret.data.get("userData")):
            token = await self._token(machine, valid_for) if userdata.wants_token(raw) else ""
            filled = userdata.filled(raw, machine.metadata.name, token)
            secret = Secret(data={**secret.data, "userData": filled})
        return MachineRequest(machine, machine_class, secret)

    async def make_update(self, machine: Machine, goal: Mapping[str, Any]) -> MachineRequest:
        """The request for an update: by the class, but what the VM is to be is ``goal``.

        Raises:
            Incomplete: the class or a secret has gone since the update was planned.
        """
        request = await self.make(machine, Verb.UPDATE, timedelta(0))
        aimed = structs.replace(request.machine_class, provider_spec=goal)
        return replace(request, machine_class=aimed)

    async def delete_token(self, machine: Machine) -> None:
        """Delete the machine's token, if there is one; that of a machine with the same token id stays."""
        key = _key(machine.metadata.uid)
        with MayBeGone(key.name):
            found = await self._target.get(SECRET, key)
            if _is_token_of(machine, found):
                await self._target.delete(SECRET, key, uid=found.metadata.uid)

    async def _token(self, machine: Machine, valid_for: timedelta) -> str | None:
        if not self._settings.joins:
            return None
        uid, ahead = machine.metadata.uid, timedelta(seconds=self._target.skew.ahead)
        until = self._clock.now() - ahead + valid_for  # by the clock of the server that checks it
        key, secret = _key(uid), userdata.token_secret(self._clock)
        data = userdata.token_data(machine.metadata.name, uid, secret, until, self._settings.token_groups)
        body = {"metadata": {"name": key.name}, "type": "bootstrap.kubernetes.io/token", "stringData": data}
        try:
            await self._target.create(SECRET, body, namespace=key.namespace)
        except AlreadyExists:
            found = await self._target.get(SECRET, key)
            if not _is_token_of(machine, found):
                raise Incomplete(f"Secret {key} is the bootstrap token of another machine") from None
            later = with_uid({"stringData": {"expiration": rfc3339(until)}}, found.metadata.uid)
            secret = (await self._target.patch(SECRET, key, later)).data.get("token-secret", b"").decode()
        return f"{userdata.token_id(uid)}.{secret}"


def _key(uid: str) -> Key:
    return Key(userdata.NAMESPACE, userdata.token_name(uid))


def _is_token_of(machine: Machine, found: Secret) -> bool:
    """Whether the Secret of the token's name is this machine's: names are short hashes, so two machines may
    have one."""
    return found.data.get("description") == userdata.token_description(machine.metadata.name).encode()
