"""Replaces the data of an etcd whose members are pods, and do not run: makes a pod for each, and sends to it.

Theory.      A call does what can be done now and says what it waits for; the caller calls again. A pod that
             is missing is made, one that waits for the snapshot is sent it, one that has succeeded is done.
             So a process that ends in between loses nothing: the pods say how far it is.
Invariants.  Nothing is made while a pod of the etcd is there. All members are done before the call says so.
Source       decision 0041.
Called by    ``host``.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from kubewright.api.controlplane.names import CLIENT_PORTS
from kubewright.controlplanes.hosting.contract import Replaced, Replacement, WorkloadIdentity
from kubewright.controlplanes.hosting.etcdutl import bracketed
from kubewright.controlplanes.hosting.member_data import NotReplaced
from kubewright.controlplanes.hosting.pods import restore_pods
from kubewright.controlplanes.hosting.pods.kinds import RESTORE_CLAIM, RESTORE_POD, ComponentPod
from kubewright.controlplanes.hosting.pods.sending import Target, listening, send
from kubewright.controlplanes.members.client import tls_of
from kubewright.kube.client import Client
from kubewright.wire.errors import AlreadyExists, Conflict, NotFound
from kubewright.wire.gvk import Key


class Replacer:
    """Makes and deletes the pods that replace data. ``image``: of this program."""

    def __init__(self, client: Client, image: str) -> None:
        self._client = client
        self._image = image

    async def replace(
        self,
        identity: WorkloadIdentity,
        stateful_set: Mapping[str, Any],
        pods: Sequence[ComponentPod],
        by: Replacement,
    ) -> Replaced:
        """Do what can be done now. ``pods``: those of ``restore_pods`` that are there.

        Raises:
            NotReplaced: the template does not fit, or a snapshot was not taken by a pod.
            ApiError, TransportError: the server said no, or could not be asked.
        """
        if problem := restore_pods.unfit(stateful_set):
            raise NotReplaced(problem)
        there, waits, unsent = {each.name: each for each in pods}, [], []
        for ordinal in range(by.members):
            name = restore_pods.name_of(identity, ordinal)
            pod = there.get(name)
            if pod is None:
                await self._make(stateful_set, identity, ordinal, by)
                waits.append(f"{name}: it is being made")
            elif restore_pods.is_over(pod, by.mark, self._client.clock.now()):
                await self.delete(pod)
                waits.append(f"{name}: an earlier one ends first")
            elif pod.status.phase != restore_pods.DONE:
                waits.append(restore_pods.waits_for(pod))
                if pod.status.pod_ip and pod.status.phase != restore_pods.FAILED:
                    address = f"{bracketed(pod.status.pod_ip)}:{CLIENT_PORTS[identity.component]}"
                    unsent.append(Target(address, restore_pods.host_of(identity, ordinal)))
        await self._send(unsent, by)
        if waits:
            return Replaced(waits=", ".join(waits))
        return Replaced(restore_pods.told_of(identity, by.mark))

    async def delete(self, pod: ComponentPod) -> None:
        """Delete this very pod, if it is there."""
        if not pod.metadata.deleting:
            with suppress(NotFound, Conflict):
                await self._client.delete(RESTORE_POD, Key(pod.namespace, pod.name), uid=pod.metadata.uid)

    async def _make(
        self, stateful_set: Mapping[str, Any], identity: WorkloadIdentity, ordinal: int, by: Replacement
    ) -> None:
        for claim in restore_pods.claim_manifests(stateful_set, identity, ordinal):
            with suppress(AlreadyExists):  # only one that is gone is made
                await self._client.create(RESTORE_CLAIM, claim)
        task = restore_pods.Task(identity, ordinal, by.members, by.mark, self._image)
        with suppress(AlreadyExists):  # our caches do not show it yet
            await self._client.create(RESTORE_POD, restore_pods.pod_of(stateful_set, task))

    async def _send(self, targets: list[Target], by: Replacement) -> None:
        """Send the snapshot to those that wait for it; it is fetched only if one does.

        Raises:
            NotReplaced: the credentials are unfit, or one did not take it.
        """
        if not targets:
            return
        own = await by.credentials()
        try:
            tls = tls_of(own)
        except (ValueError, OSError):
            raise NotReplaced("the certificates of clients of this etcd are unfit") from None
        if ready := await listening(targets, tls):
            async with by.fetch() as file:
                for each in ready:
                    await send(each, tls, file)
