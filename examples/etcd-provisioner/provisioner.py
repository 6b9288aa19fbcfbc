"""An etcd provisioner that is not Kubewright: a sample of docs/reference/control-plane-provisioners.md.

    python examples/etcd-provisioner/provisioner.py --kubeconfig FILE --folder FOLDER --etcd PROGRAM

Theory.      It watches NestedEtcds and NestedControlPlanes. One pass looks at every NestedEtcd that is its
             own, and does the next step for each; a pass follows each change, and comes every few seconds
             besides, since no watch tells that an etcd has stopped. The numbers in the comments are those of
             the steps in that page. Of Kubewright it uses the client (``kubewright.kube``) and the
             values that its methods take; all that it knows of control planes is in that page.
Map.         ``etcd``  one etcd as a process: started, found, asked, ended
             ``keys``  its authority and certificates
Invariants.  It writes to a NestedEtcd only a finalizer and the status. A Secret that it did not make is not
             written. An etcd is stopped when its object asks for no replicas or is deleted, and its data is
             deleted when the object is deleted and does not say that its data is kept.
"""

import argparse
import asyncio
import base64
import os
import shutil
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import structlog
from etcd import HOST, Etcd, version
from keys import ensure

from kubewright.api.kinds import dynamic
from kubewright.base.clock import Clock, SystemClock
from kubewright.kube.client import Client
from kubewright.kube.config import load
from kubewright.kube.errors import TransportError
from kubewright.kube.informer import Informers
from kubewright.wire.errors import ApiError, NotFound
from kubewright.wire.gvk import Key, Resource

GROUP, VERSION = "controlplane.cluster.x-k8s.io", "v1alpha4"
ETCD = dynamic(Resource(GROUP, VERSION, "nestedetcds", "NestedEtcd"))
PLANE = dynamic(Resource(GROUP, VERSION, "nestedcontrolplanes", "NestedControlPlane"))
CLUSTER = dynamic(Resource("cluster.x-k8s.io", "v1beta1", "clusters", "Cluster"))
SECRET = dynamic(Resource("", "v1", "secrets", "Secret"))
MANAGED_BY, PAUSED = "cluster.x-k8s.io/managed-by", "cluster.x-k8s.io/paused"
KEEP_DATA = "nested.controlplane.cluster.x-k8s.io/keep-data"
CLUSTER_NAME = "cluster.x-k8s.io/cluster-name"
FINALIZER = "example.com/etcd-provisioner"
PASS_SECONDS = 2.0
"""The longest time from one pass to the next."""
SYNC_SECONDS = 30.0
"""How long the first lists of the watches may take."""
NOT_OFFERED = ("channel", "patches", "image", "binary", "extraArgs", "withoutArgs", "extraFiles", "resources")
"""Fields of the spec that this provisioner reports as an error instead of obeying them."""

Json = dict[str, Any]
log = structlog.get_logger("etcd-provisioner")


class Provisioner:
    """``program``: the etcd to run. ``every``: also objects that name no manager, for where Kubewright's own
    controller of NestedEtcds is switched off."""

    def __init__(self, client: Client, clock: Clock, folder: Path, *, program: str, every: bool) -> None:
        self._client, self._clock, self._folder = client, clock, folder
        self._program, self._every = program, every
        self._version = version(program)
        informers = self._informers = Informers(client)
        self._etcds, self._planes = informers.get(ETCD), informers.get(PLANE)
        self._changed = asyncio.Event()
        self._running: dict[str, Etcd] = {}
        """By the uid of the NestedEtcd, which is also the name of the etcd's folder."""

    async def run(self, stop: asyncio.Event) -> None:
        """Pass after pass until told to stop; the etcds go on."""
        for informer in (self._etcds, self._planes):
            informer.subscribe(lambda _change: self._changed.set())
        keeping = asyncio.create_task(self._informers.run())
        try:
            await self._informers.wait_synced(SYNC_SECONDS)
            while not stop.is_set():
                self._changed.clear()
                for found in self._etcds.list():
                    await self._reconcile(found)
                with suppress(TimeoutError):
                    async with asyncio.timeout(PASS_SECONDS):
                        await self._changed.wait()
        finally:
            keeping.cancel()
            await asyncio.wait([keeping])

    async def _reconcile(self, found: Json) -> None:
        """One step for one object; what the server refuses is tried again in the next pass."""
        meta = found["metadata"]
        named = meta.get("annotations", {}).get(MANAGED_BY, "")
        if named != "etcd-provisioner" and (named or not self._every):
            return
        etcd = self._running.setdefault(meta["uid"], Etcd(self._folder / meta["uid"], self._program))
        try:
            if meta.get("deletionTimestamp"):
                await self._let_go(found, etcd)
            else:
                await self._provide(found, etcd)
        except (ApiError, TransportError) as error:
            log.warning("tried again", object=meta["name"], error=str(error))

    async def _let_go(self, found: Json, etcd: Etcd) -> None:
        """Step 7: end it, delete its data, take the finalizer off. Nothing else is needed for that."""
        meta = found["metadata"]
        if FINALIZER not in meta.get("finalizers", ()) or not etcd.end(self._clock.monotonic()):
            return
        if KEEP_DATA not in meta.get("annotations", {}):
            await asyncio.to_thread(etcd.delete)
        left = [each for each in meta["finalizers"] if each != FINALIZER]
        await self._patch(found, {"metadata": {"finalizers": left}})
        self._running.pop(meta["uid"], None)

    async def _provide(self, found: Json, etcd: Etcd) -> None:
        meta, spec = found["metadata"], found.get("spec", {})
        plane = self._plane_of(meta)  # step 1
        if plane is None:
            return
        owner = _controller(plane["metadata"])
        cluster = await self._cluster(owner, meta["namespace"])
        paused = PAUSED in meta.get("annotations", {}) or PAUSED in plane["metadata"].get("annotations", {})
        if paused or cluster.get("spec", {}).get("paused"):  # step 3
            return
        if FINALIZER not in meta.get("finalizers", ()):
            await self._patch(found, {"metadata": {"finalizers": [*meta.get("finalizers", ()), FINALIZER]}})
            return
        problem = _problem(spec, self._version)  # step 2
        name = cluster.get("metadata", {}).get("name") or _name(plane)
        if not problem and spec.get("replicas") != 0:
            etcd.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            authority, client = ensure(etcd.folder, HOST, self._clock.now())
            if etcd.pid is None:  # step 4
                etcd.start(self._clock.monotonic())
            pair = {"tls.crt": client.certificate, "tls.key": client.key}
            problem = (  # step 5
                await self._publish(found, name, f"{name}-etcd", {"tls.crt": authority})
                or await self._publish(found, name, f"{name}-apiserver-etcd-client", pair)
                or await etcd.trouble()
            )
        elif spec.get("replicas") == 0:
            etcd.end(self._clock.monotonic())
        await self._report(found, etcd, problem)  # step 6

    async def _publish(self, found: Json, cluster: str, secret: str, content: Mapping[str, bytes]) -> str:
        """Write a Secret. Answers the problem if another made one of this name; else an empty text."""
        meta = found["metadata"]
        data = {key: base64.b64encode(value).decode() for key, value in content.items()}
        try:
            there = await self._client.get(SECRET, Key(meta["namespace"], secret))
        except NotFound:
            owner = {key: meta[key] for key in ("name", "uid")} | {"controller": True}
            body = {
                "metadata": {
                    "name": secret,
                    "labels": {CLUSTER_NAME: cluster},
                    "ownerReferences": [{"apiVersion": f"{GROUP}/{VERSION}", "kind": "NestedEtcd"} | owner],
                },
                "type": "cluster.x-k8s.io/secret",
                "data": data,
            }
            await self._client.create(SECRET, body, namespace=meta["namespace"])
            return ""
        owner = _controller(there["metadata"])
        if owner is None or owner["uid"] != meta["uid"]:
            return f"Secret {secret} is there and was not made for this object"
        if there.get("data") != data:
            await self._client.patch(SECRET, Key(meta["namespace"], secret), {"data": data})
        return ""

    async def _report(self, found: Json, etcd: Etcd, problem: str) -> None:
        sleeps = found.get("spec", {}).get("replicas") == 0
        running = 0 if etcd.pid is None else 1
        ready = running == 1 and not problem and not sleeps
        status = {
            "ready": ready,
            "phase": "Ready" if ready else "Sleeping" if sleeps else "Unready",
            "healthy": not problem,
            "errors": [problem] if problem else [],
            "version": self._version,
            "replicas": running,
            "readyReplicas": int(ready),
            "observedGeneration": found["metadata"].get("generation", 0),
        }
        if running:
            status["addresses"] = [{"ip": HOST, "port": etcd.port}]
        before = found.get("status", {})
        if changes := {key: value for key, value in status.items() if before.get(key) != value}:
            log.info("status", object=found["metadata"]["name"], **changes)
            await self._patch(found, {"status": changes}, subresource="status")

    async def _patch(self, found: Json, body: Json, *, subresource: str = "") -> None:
        """A merge patch that the server refuses if the object is not the one that was seen (by uid)."""
        meta = found["metadata"]
        marked = {**body, "metadata": {**body.get("metadata", {}), "uid": meta["uid"]}}
        await self._client.patch(ETCD, Key(meta["namespace"], meta["name"]), marked, subresource=subresource)

    def _plane_of(self, meta: Json) -> Json | None:
        owner = _controller(meta)
        if owner is None or (owner["apiVersion"].partition("/")[0], owner["kind"]) != (
            GROUP,
            "NestedControlPlane",
        ):
            return None
        plane = self._planes.get(Key(meta["namespace"], owner["name"]))
        return plane if plane is not None and plane["metadata"]["uid"] == owner["uid"] else None

    async def _cluster(self, owner: Json | None, namespace: str) -> Json:
        """The Cluster that owns the control plane; empty if none does. One that is gone has its name only."""
        if owner is None or owner["kind"] != "Cluster":
            return {}
        with suppress(NotFound):
            return await self._client.get(CLUSTER, Key(namespace, owner["name"]))
        return {"metadata": {"name": owner["name"]}}


def _controller(meta: Json) -> Json | None:
    return next((each for each in meta.get("ownerReferences", ()) if each.get("controller")), None)


def _name(plane: Json) -> str:
    """What names of Secrets begin with, where no Cluster owns the control plane yet."""
    name: str = plane["metadata"].get("labels", {}).get(CLUSTER_NAME) or plane["metadata"]["name"]
    return name


def _problem(spec: Json, ours: str) -> str:
    """What this provisioner cannot do of a spec; empty: nothing. ``ours``: the version that it runs."""
    if spec.get("replicas", 1) not in (0, 1):
        return f"spec.replicas is {spec['replicas']}: this provisioner runs one member"
    if spec.get("version", ours).removeprefix("v") != ours:
        return f"spec.version is {spec['version']}: this provisioner has {ours}"
    asked = ", ".join(f"spec.{each}" for each in NOT_OFFERED if spec.get(each))
    return f"this provisioner does not know {asked}" if asked else ""


async def _serve(options: argparse.Namespace) -> None:
    clock, stop = SystemClock(), asyncio.Event()
    for each in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(each, stop.set)
    client = Client(load(options.kubeconfig), clock, user_agent="etcd-provisioner")
    folder = options.folder.absolute()
    try:
        provisioner = Provisioner(client, clock, folder, program=options.etcd, every=options.every)
        serving = asyncio.create_task(provisioner.run(stop))
        stopping = asyncio.create_task(stop.wait())
        await asyncio.wait([serving, stopping], return_when=asyncio.FIRST_COMPLETED)
        await serving
    finally:
        await client.close()


def _etcd() -> str | None:
    """The etcd on PATH, or the latest one in the cache of Kubewright's ``make kube``."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kubewright" / "kube"
    return shutil.which("etcd") or max(map(str, cache.glob("v*/etcd")), default=None)


def main() -> None:
    """Read the command line, and serve until told to stop."""
    parser = argparse.ArgumentParser(description="An etcd for each NestedEtcd that names etcd-provisioner.")
    parser.add_argument("--kubeconfig", type=Path, help="of the management cluster")
    parser.add_argument("--folder", type=Path, required=True, help="where data, keys and logs are")
    parser.add_argument("--etcd", default=_etcd(), help="the program; else that on PATH, or of `make kube`")
    parser.add_argument("--every", action="store_true", help="also objects that name no manager")
    options = parser.parse_args()
    if not options.etcd:
        sys.exit("there is no etcd on PATH, nor in the cache of `make kube`: name one with --etcd")
    asyncio.run(_serve(options))


if __name__ == "__main__":
    main()
