"""What is made for a new machine of a set: clones of two templates, and the Machine that refers to them.

Theory.      Each machine has an object of its bootstrap provider and one of its infrastructure provider,
             both made from templates, under the machine's own name. They are made before it, owned by the
             set; the machine's own controller makes them the machine's. So a clone whose machine never
             comes to be goes with the set, or is deleted at once when the machine was refused for good.
Invariants.  A name is asked for again after a lost answer, so a clone that exists and is ours is no
             error. A clone of another owner's makes the name taken, and so does one that is being deleted:
             a machine that was refused leaves it until its provider's finalizer is off.
Called by    ``policy``.
"""

from collections.abc import Mapping
from typing import Any

from msgspec import structs

from kubewright.api.cluster import names
from kubewright.api.cluster.v1beta1 import (
    API_VERSION,
    MACHINE,
    MACHINE_SET,
    Machine,
    MachineSet,
    ObjectReference,
)
from kubewright.api.cluster.validate import default_machine
from kubewright.api.kinds import Kind, dynamic
from kubewright.api.meta import ObjectMeta
from kubewright.clusters.external.object import External, clone_kind, cloned, mapping, plural_of
from kubewright.clusters.machineset.around import Around
from kubewright.clusters.machineset.member import marker, metadata_of, wanted_annotations, wanted_labels
from kubewright.kube.client import Client
from kubewright.replicas.objects import number_of, reference
from kubewright.wire.errors import AlreadyExists, Conflict, NotFound
from kubewright.wire.gvk import Key, Resource, split_api_version


async def create(client: Client, owner: MachineSet, around: Around, name: str) -> None:
    """Clone what the machine ``name`` needs, then create it.

    Raises:
        AlreadyExists: the machine exists; or a clone of this name does that is another owner's, or going.
        NotFound: a template is gone.
        ApiError, TransportError: the server refuses something, or did not answer.
    """
    refs: dict[str, ObjectReference] = {}
    for part, template in parts(around).items():
        kind, body = clone(owner, template, name)
        try:
            await client.create(kind, body)
        except AlreadyExists:
            if "deletionTimestamp" in await _ours(client, owner, kind, name):
                raise AlreadyExists(f"{kind.resource.kind} {name} is being deleted") from None
        refs[part] = ObjectReference(
            api_version=kind.resource.api_version,
            kind=kind.resource.kind,
            namespace=owner.namespace,
            name=name,
        )
    await client.create(MACHINE, new_machine(owner, name, refs))


async def discard(client: Client, owner: MachineSet, around: Around, name: str) -> None:
    """Delete the clones of a machine that was refused and does not exist."""
    for template in parts(around).values():
        kind = clone_kind(template)
        try:
            meta = await _ours(client, owner, kind, name)
            await client.delete(kind, Key(owner.namespace, name), uid=str(meta.get("uid", "")))
        except (NotFound, AlreadyExists, Conflict):
            continue


def parts(around: Around) -> dict[str, External]:
    """The templates that are cloned for each machine, by the part that the clone is."""
    found = {"bootstrap": around.bootstrap, "infrastructure": around.infrastructure}
    return {part: template for part, template in found.items() if template is not None}


def clone(owner: MachineSet, template: External, name: str) -> tuple[Kind[dict[str, Any]], dict[str, Any]]:
    """The object ``name`` that is made from a template for a machine of a set.

    Raises:
        NotFound: there is no template.
    """
    owned = structs.replace(reference(owner, MACHINE_SET), controller=False, block_owner_deletion=False)
    meta = ObjectMeta(
        name=name,
        namespace=owner.namespace,
        labels=wanted_labels(owner),
        annotations=wanted_annotations(owner),
        owner_references=(owned,),
    )
    return cloned(template, meta)


def new_machine(owner: MachineSet, name: str, refs: Mapping[str, ObjectReference]) -> Machine:
    """The Machine ``name`` of a set, complete: no controller has to write it before it is of use."""
    template = owner.spec.template.spec
    bootstrap = template.bootstrap
    if "bootstrap" in refs:
        bootstrap = structs.replace(bootstrap, config_ref=refs["bootstrap"])
    annotations = {**wanted_annotations(owner), names.PROPAGATED_ANNOTATION: marker(owner)}
    if number := number_of(owner.metadata.uid, name):
        annotations[names.NUMBER_ANNOTATION] = str(number)
    machine = Machine(
        metadata=ObjectMeta(
            name=name,
            namespace=owner.namespace,
            labels=wanted_labels(owner),
            annotations=annotations,
            finalizers=(names.MACHINE_FINALIZER,),
            owner_references=(reference(owner, MACHINE_SET),),
        ),
        spec=structs.replace(
            template,
            cluster_name=owner.spec.cluster_name,
            bootstrap=bootstrap,
            infrastructure_ref=refs["infrastructure"],
            provider_id=None,
        ),
    )
    return default_machine(machine)


async def propagate(client: Client, owner: MachineSet, machine: Machine) -> None:
    """Write the labels and annotations that a machine lacks onto its bootstrap and infrastructure objects.

    Raises:
        ApiError, TransportError: a server refuses it, or did not answer. A clone that is gone is none.
    """
    metadata = metadata_of(owner, machine)
    refs = (machine.spec.bootstrap.config_ref, machine.spec.infrastructure_ref)
    for ref in (each for each in refs if metadata and each is not None and each.name and each.api_version):
        group, version = split_api_version(ref.api_version)
        kind = dynamic(Resource(group, version, plural_of(group, ref.kind), ref.kind))
        try:
            await client.patch(kind, Key(machine.namespace, ref.name), {"metadata": metadata})
        except NotFound:
            continue


async def _ours(
    client: Client, owner: MachineSet, kind: Kind[dict[str, Any]], name: str
) -> Mapping[str, Any]:
    """The metadata of the clone of this name.

    Raises:
        AlreadyExists: it belongs neither to the set nor to its machine.
    """
    found = await client.get(kind, Key(owner.namespace, name))
    meta = mapping(found, "metadata")
    ours = (owner.metadata.uid, (API_VERSION, MACHINE.resource.kind, name))
    if not any(
        each.get("uid") == ours[0] or (each.get("apiVersion"), each.get("kind"), each.get("name")) == ours[1]
        for each in meta.get("ownerReferences") or ()
    ):
        raise AlreadyExists(f"{kind.resource.kind} {name} belongs to another owner")
    return meta
