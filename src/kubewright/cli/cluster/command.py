"""``kubewright cluster describe`` and ``kubeconfig``: read, and print.

Called by    ``cli.app``.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from kubewright.api.cluster.conditions import ConditionType
from kubewright.api.cluster.names import SECRET_VALUE_KEY, kubeconfig_secret
from kubewright.api.cluster.v1beta1 import (
    CLUSTER,
    MACHINE,
    MACHINE_DEPLOYMENT,
    MACHINE_HEALTH_CHECK,
    MACHINE_SET,
)
from kubewright.api.conditions import condition_of
from kubewright.api.controlplane.v1alpha4 import (
    NESTED_API_SERVER,
    NESTED_CONTROL_PLANE,
    NESTED_CONTROLLER_MANAGER,
    NESTED_ETCD,
)
from kubewright.api.core import SECRET
from kubewright.api.kinds import Kind, dynamic
from kubewright.base.clock import SystemClock
from kubewright.base.errors import InvalidInput
from kubewright.cli.asking import asked, refuse_unknown, require_namespace
from kubewright.cli.cluster import tree as trees
from kubewright.cli.cluster.tree import ClusterObjects, JsonObject, tree
from kubewright.cli.switches import Where
from kubewright.kube.client import Client
from kubewright.kube.discovery import Served, discover
from kubewright.wire.errors import ApiError, NotFound
from kubewright.wire.gvk import Key, split_api_version

PARTS: tuple[Kind[Any], ...] = (MACHINE_DEPLOYMENT, MACHINE_SET, MACHINE, MACHINE_HEALTH_CHECK)
"""The kinds whose objects name their cluster in ``spec.clusterName``."""

COMPONENTS: Mapping[str, Kind[Any]] = {
    "etcd": NESTED_ETCD,
    "apiserver": NESTED_API_SERVER,
    "controllerManager": NESTED_CONTROLLER_MANAGER,
}
"""The kinds of the components of a NestedControlPlane, by the fields that name them."""


async def read(client: Client, key: Key) -> ClusterObjects:
    """All objects of a cluster.

    Raises:
        InvalidInput: there is no such cluster.
        ApiError, TransportError: the server refused, or did not answer.
    """
    cluster = await _cluster(client, key)
    others: list[JsonObject] = []
    for kind in PARTS:
        for each in await client.list(dynamic(kind.resource), key.namespace):
            if _spec(each).get("clusterName") == key.name:
                others.append({**each, "kind": kind.resource.kind})
    spec, served = _spec(cluster), (await discover(client)).served
    plane = await _referred(client, key.namespace, spec.get("controlPlaneRef"), served)
    components = [(ref, await _referred(client, key.namespace, ref, served)) for ref in _components(plane)]
    return ClusterObjects(
        {**cluster, "kind": CLUSTER.resource.kind},
        await _referred(client, key.namespace, spec.get("infrastructureRef"), served),
        plane,
        others,
        components,
    )


async def kubeconfig(client: Client, key: Key) -> bytes:
    """The kubeconfig of a cluster.

    Raises:
        InvalidInput: there is no such cluster, or it has no kubeconfig; the message says what it waits for.
    """
    await _cluster(client, key)
    name = Key(key.namespace, kubeconfig_secret(key.name))
    try:
        found = (await client.get(SECRET, name)).data.get(SECRET_VALUE_KEY, b"")
    except NotFound:
        cluster = await client.get(CLUSTER, key)
        said = condition_of(cluster.status.conditions, ConditionType.CONTROL_PLANE_INITIALIZED)
        why = f": {said.message}" if said is not None and said.message else ""
        raise InvalidInput(f"cluster {key.name} has no kubeconfig yet, in Secret {name}{why}") from None
    if not found:
        raise InvalidInput(f"Secret {name} has no {SECRET_VALUE_KEY}, where the kubeconfig should be")
    return found


async def _cluster(client: Client, key: Key) -> JsonObject:
    try:
        return await client.get(dynamic(CLUSTER.resource), key)
    except NotFound:
        pass
    try:
        there = sorted(each.name for each in await client.list(CLUSTER, key.namespace))
    except NotFound:
        raise InvalidInput(f"{client.name} does not serve {CLUSTER}: it has no Cluster API") from None
    await require_namespace(client, key.namespace)
    known = f"there are: {', '.join(there)}" if there else "there is none"
    raise InvalidInput(f"there is no cluster {key.name} in namespace {key.namespace}; {known}")


async def _referred(
    client: Client, namespace: str, ref: object, served: Sequence[Served]
) -> JsonObject | str:
    """The object of a reference, or why it cannot be shown."""
    if not isinstance(ref, Mapping):
        return ""
    group, kind = split_api_version(str(ref.get("apiVersion", "")))[0], str(ref.get("kind", ""))
    resource = next(
        (each.resource for each in served if (each.resource.group, each.resource.kind) == (group, kind)), None
    )
    if resource is None:
        return f"the kind {kind}.{group} is not installed"
    try:
        found = await client.get(dynamic(resource), Key(namespace, str(ref.get("name", ""))))
    except NotFound:
        return f"there is no {kind} {ref.get('name', '')}"
    except ApiError as error:
        return f"cannot be read: {error.message}"
    return {**found, "kind": kind}


def _components(plane: JsonObject | str) -> Iterator[JsonObject]:
    """References to the components of a NestedControlPlane, in the order in which they start."""
    if isinstance(plane, str) or plane.get("kind") != NESTED_CONTROL_PLANE.resource.kind:
        return
    for field, kind in COMPONENTS.items():
        named = _spec(plane).get(field)
        if isinstance(named, Mapping) and named.get("name"):
            resource = kind.resource
            yield {"apiVersion": resource.api_version, "kind": resource.kind, "name": named["name"]}


def _spec(found: JsonObject) -> JsonObject:
    spec = found.get("spec")
    return spec if isinstance(spec, Mapping) else {}


def describe(where: Where, key: Key, output: str) -> None:
    """Print the tree of a cluster.

    Raises:
        InvalidInput: there is no such cluster, or no such form of output.
        ApiError, TransportError: the server refused, or did not answer.
    """
    refuse_unknown(output)
    found = tree(asked(where, lambda client: read(client, key)))
    if output == "json":
        print(msgspec.json.format(msgspec.json.encode(found), indent=2).decode())
        return
    lines = list(trees.lines(found, SystemClock().now()))
    if not sys.stdout.isatty():
        print("\n".join(trees.text(lines)))
        return
    from rich.console import Console  # only a terminal has to wait for it
    from rich.text import Text

    console = Console(file=sys.stdout, highlight=False)
    for line, text in zip(lines, trees.text(lines, console.width), strict=True):
        console.print(Text(text, style=line.colour), soft_wrap=True)


def kubeconfig_of(where: Where, key: Key) -> None:
    """Print the kubeconfig of a cluster.

    Raises:
        InvalidInput: there is no such cluster, or it has none.
        ApiError, TransportError: the server refused, or did not answer.
    """
    sys.stdout.write(asked(where, lambda client: kubeconfig(client, key)).decode())
