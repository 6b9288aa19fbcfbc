"""A double of the controller of StatefulSets, for a server without a kube-controller-manager.

Theory.      It makes the pods of each StatefulSet with their claims, all at once, deletes those beyond the
             number, and writes the counts. As the update strategy ``OnDelete`` says, it replaces no pod
             because of a changed template. It looks after each change, and once a second.
Invariants.  Names, labels and owners are those that the real one gives. Another update strategy is refused.
Source       kube-controller-manager's statefulset-controller.
Called by    the conformance suite of hosts.
"""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256
from typing import Any

import msgspec

from kubewright.api.controlplane.names import COMPONENT_LABEL
from kubewright.api.core import POD
from kubewright.controlplanes.hosting.pods.objects import CLAIM, WORKLOAD
from kubewright.kube.client import Client
from kubewright.kube.informer import Informers
from kubewright.testing.kubelets.kubelet import POD_JSON, until_one
from kubewright.wire.errors import AlreadyExists, ApiError, Conflict, NotFound
from kubewright.wire.gvk import Key

REVISION = "controller-revision-hash"
Object = Mapping[str, Any]


class StatefulSets:
    """All StatefulSets of components."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._informers = Informers(client)
        self._sets = self._informers.get(WORKLOAD, labels=COMPONENT_LABEL)
        self._pods = self._informers.get(POD_JSON, labels=COMPONENT_LABEL)
        self._changed = asyncio.Event()

    async def run(self, stop: asyncio.Event) -> None:
        """Be that controller until ``stop``."""
        self._sets.subscribe(lambda _change: self._changed.set())
        self._pods.subscribe(lambda _change: self._changed.set())
        informing = asyncio.create_task(self._informers.run(), name="informers of StatefulSets")
        try:
            await self._informers.wait_synced(20)
            while not stop.is_set():
                self._changed.clear()
                for each in self._sets.list():
                    with suppress(ApiError):  # the next look tries again
                        await self._tend(each)
                await until_one(self._changed, stop)
        finally:
            informing.cancel()
            await asyncio.gather(informing, return_exceptions=True)

    async def _tend(self, found: Object) -> None:
        metadata, spec = found["metadata"], found["spec"]
        assert spec["updateStrategy"]["type"] == "OnDelete", "this double knows no other update strategy"
        if "deletionTimestamp" in metadata:
            return
        pods = {each["metadata"]["name"]: each for each in self._pods.by("owner", metadata["uid"])}
        wanted = [f"{metadata['name']}-{ordinal}" for ordinal in range(spec["replicas"])]
        for ordinal, name in enumerate(wanted):
            if name not in pods:
                await self._make(found, ordinal, name)
            elif pods[name].get("status", {}).get("phase") in ("Failed", "Succeeded"):
                await self._delete(pods[name])
        for name in pods.keys() - set(wanted):
            await self._condemn(found, pods[name])
        await self._count(found, list(pods.values()))

    async def _make(self, found: Object, ordinal: int, name: str) -> None:
        """Make the pod of this ordinal, and its claims before it."""
        namespace, spec = found["metadata"]["namespace"], found["spec"]
        claims = {}
        for template in spec.get("volumeClaimTemplates", ()):
            claim = f"{template['metadata']['name']}-{name}"
            claims[template["metadata"]["name"]] = claim
            labels = {**template["metadata"].get("labels", {}), **spec["selector"]["matchLabels"]}
            body = {"metadata": {"name": claim, "labels": labels}, "spec": template["spec"]}
            with suppress(AlreadyExists):
                await self._client.create(CLAIM, body, namespace=namespace)
        with suppress(AlreadyExists):  # the pod of that name is not gone yet
            await self._client.create(POD_JSON, _pod(found, ordinal, name, claims), namespace=namespace)

    async def _condemn(self, found: Object, pod: Object) -> None:
        """Delete a pod beyond the number; its claims too, if the StatefulSet says so."""
        policy = found["spec"].get("persistentVolumeClaimRetentionPolicy", {})
        if policy.get("whenScaled") == "Delete":
            for volume in pod["spec"].get("volumes", ()):
                if claim := volume.get("persistentVolumeClaim"):
                    with suppress(NotFound):
                        key = Key(pod["metadata"]["namespace"], claim["claimName"])
                        await self._client.delete(CLAIM, key)
        await self._delete(pod)

    async def _delete(self, pod: Object) -> None:
        metadata = pod["metadata"]
        if "deletionTimestamp" not in metadata:
            with suppress(NotFound, Conflict):
                key = Key(metadata["namespace"], metadata["name"])
                await self._client.delete(POD, key, uid=metadata["uid"])

    async def _count(self, found: Object, pods: list[Object]) -> None:
        revision = _revision(found)
        ready = [each for each in pods if _is_ready(each)]
        status = {
            "observedGeneration": found["metadata"]["generation"],
            "replicas": len(pods),
            "readyReplicas": len(ready),
            "availableReplicas": len(ready),
            "updatedReplicas": sum(each["metadata"]["labels"].get(REVISION) == revision for each in pods),
            "updateRevision": revision,
        }
        if any(found.get("status", {}).get(name) != value for name, value in status.items()):
            key = Key(found["metadata"]["namespace"], found["metadata"]["name"])
            await self._client.patch(WORKLOAD, key, {"status": status}, subresource="status")


def _pod(found: Object, ordinal: int, name: str, claims: Mapping[str, str]) -> Object:
    """The pod of an ordinal. ``claims``: the name of each claim, by that of its volume."""
    template, spec = found["spec"]["template"], found["spec"]["template"]["spec"]
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "controller": True, "blockOwnerDeletion": True}
    volumes = [
        *(each for each in spec.get("volumes", ()) if each["name"] not in claims),
        *({"name": each, "persistentVolumeClaim": {"claimName": claim}} for each, claim in claims.items()),
    ]
    return {
        "metadata": {
            "name": name,
            "labels": {
                **template["metadata"]["labels"],
                "statefulset.kubernetes.io/pod-name": name,
                "apps.kubernetes.io/pod-index": str(ordinal),
                REVISION: _revision(found),
            },
            "annotations": template["metadata"].get("annotations", {}),
            "ownerReferences": [
                {**owner, "name": found["metadata"]["name"], "uid": found["metadata"]["uid"]}
            ],
        },
        "spec": {
            **spec,
            "hostname": name,
            "subdomain": found["spec"]["serviceName"],
            "volumes": volumes,
        },
    }


def _revision(found: Object) -> str:
    template = msgspec.json.encode(found["spec"]["template"], order="deterministic")
    return f"{found['metadata']['name']}-{sha256(template).hexdigest()[:10]}"


def _is_ready(pod: Object) -> bool:
    conditions = pod.get("status", {}).get("conditions", ())
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
