"""The default roles and bindings, and the PriorityClasses of the system, made at each start of the server.

Theory.      The server writes them straight into the store, all in one batch, without the checks that
             a request passes: they are known to be valid, and the server must start within milliseconds.
             A data folder of an older release gets them at its next start. What users added to roles and
             bindings stays (``authorization.reconciliation``); a class that is there stays as it is.
Source       kube-apiserver: what the two classes are.
Called by    ``server`` at start, once the initial namespaces exist.
"""

import asyncio
from collections.abc import Iterator
from datetime import datetime
from typing import Any
from uuid import NAMESPACE_OID, uuid5

import orjson

from kubewright.apiserver.authorization.attributes import GROUP
from kubewright.apiserver.authorization.defaults import objects, own_objects
from kubewright.apiserver.authorization.reconciliation import reconciled
from kubewright.apiserver.registry import codec, metadata
from kubewright.apiserver.registry.admission import CLASSES
from kubewright.apiserver.registry.builtin.check import SYSTEM_CLASSES
from kubewright.apiserver.registry.kind import Catalog, Object, ServedKind
from kubewright.apiserver.registry.target import Target
from kubewright.apiserver.store import Store, record_of
from kubewright.base.clock import Clock, rfc3339


async def ensure_defaults(store: Store, catalog: Catalog, clock: Clock) -> None:
    """Create the missing default objects, and complete those that exist.

    Raises:
        Refused: the store takes no writes.
    """
    await asyncio.gather(*(_staged(store, place, obj) for place, obj in _wanted(store, catalog, clock)))


def _wanted(store: Store, catalog: Catalog, clock: Clock) -> Iterator[tuple[Target, Object]]:
    groups = (GROUP, CLASSES.group)
    kinds: dict[str, ServedKind] = {k.resource.kind: k for k in catalog if k.resource.group in groups}
    now = clock.now()
    for obj in (*objects(), *own_objects(), *_classes()):
        meta, kind = obj["metadata"], kinds[obj["kind"]]
        place = Target(kind, meta.get("namespace", ""), meta["name"])
        there = store.latest(place.collection, place.key)
        if there is None:
            yield (
                place,
                metadata.created(
                    obj,
                    name=place.name,
                    namespace=place.namespace,
                    uid=_uid(place, now),
                    now=rfc3339(now),
                    generation=kind.resource == CLASSES,
                ),
            )
        elif kind.resource == CLASSES:
            continue
        elif (completed := reconciled(obj, orjson.loads(there.data))) is not None:
            yield place, completed


def _classes() -> Iterator[Object]:
    """For what a node needs, and for what a cluster needs; no user's class may be as high."""
    words = {
        "system-node-critical": "must not be moved from their current node.",
        "system-cluster-critical": "must run in the cluster, but can be moved to another node if necessary.",
    }
    for name, value in SYSTEM_CLASSES.items():
        yield {
            "apiVersion": CLASSES.api_version,
            "kind": CLASSES.kind,
            "metadata": {"name": name},
            "description": f"Used for system critical pods that {words[name]}",
            "preemptionPolicy": "PreemptLowerPriority",
            "value": value,
        }


def _uid(place: Target, now: datetime) -> str:
    """A uid from the object's key and the time, not from the clock's random numbers: one more default role
    in a newer release would else shift every random number after it, and change every simulated story."""
    return str(uuid5(NAMESPACE_OID, f"{place.collection} {place.key} {now.isoformat()}"))


def _staged(store: Store, place: Target, obj: dict[str, Any]) -> asyncio.Future[None]:
    version = store.next_version()
    data = codec.stored(place.kind, obj, version)
    record = record_of(place.collection, place.key, version, data)
    return store.put(record, store.latest(place.collection, place.key))
