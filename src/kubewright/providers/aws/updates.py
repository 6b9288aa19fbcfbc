"""What is asked of EC2 to make a running instance what its class says by now: tags, checks of packets. Pure.

Theory.      A launch puts tags on the instance, its volumes and its interfaces; later others attach volumes
             of their own (PersistentVolumes) and interfaces (networks of pods). Which are the launch's their
             tags say: those of cluster and role, and the instance's own name. So only they are updated, and
             the instance itself; the request of a spot instance is over by then. Objects with the same
             changes are one request, since EC2 lets an account change tags rarely. The attribute of an
             instance is that of its only interface; of several, each has its own.
Invariants.  The driver's own tags are neither put nor taken off, whatever a class says or said. The tags of
             cluster and role stay on each object: lists, and the rights to the objects, go by them.
Source       seed 004, hot update of instances; drivers.md B17, B18, I11.
Called by    ``driver``.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import structs

from kubewright.driver import tags
from kubewright.driver.hot import TagChanges
from kubewright.driver.tags import DISK, NETWORK, RESOURCES, VM, Tags
from kubewright.providers.aws.instances import NAME, Tag, Vm, tag_list, wanted_tags
from kubewright.providers.aws.launch import Step, checks
from kubewright.providers.aws.spec import OWN_TAGS, AwsSpec

CHECKS = "srcAndDstChecksEnabled"
HOT_FIELDS = (tags.FIELD, CHECKS)

TagsById = Mapping[str, Mapping[str, str]]


def parts(vm: Vm) -> Sequence[str]:
    """The ids of the volumes and interfaces of an instance, whosoever they are."""
    return [*(each.network_interface_id for each in vm.interfaces), *vm.volumes]


def changes(
    spec: AwsSpec, last_applied: Mapping[str, Any] | None, vm: Vm, tags_of: TagsById
) -> Mapping[str, TagChanges]:
    """What is to be done to the tags of an instance and of its parts, by their ids.

    Args:
        spec: what the class says now.
        last_applied: the providerSpec that was applied last; None where that is not known.
        vm: the instance.
        tags_of: the tags of its parts.

    Raises:
        InvalidArgument: the class asks for other tags by which the objects are found.
    """
    last = tags.last_applied_tags(last_applied, RESOURCES)
    if last is not None:
        last = Tags(**{each: _of_users(last.of(each)) for each in RESOURCES})
    return tags.changes(last, wanted_tags(spec), _objects(spec, vm, tags_of))


def steps(
    spec: AwsSpec, last_applied: Mapping[str, Any] | None, vm: Vm, what: Mapping[str, TagChanges]
) -> Iterator[Step]:
    """The requests for these changes of tags, and for checks of addresses as the class has them."""
    for each, ids in _alike(what):
        why = f"the tags of {', '.join(ids)}"
        if each.put:
            yield Step("CreateTags", {"Resources": ids, "Tags": tag_list(each.put)}, why)
        if each.remove:
            keys = [{"Key": key} for key in each.remove]
            yield Step("DeleteTags", {"Resources": ids, "Tags": keys}, why)
    if (enabled := _checked(spec, last_applied)) is not None:
        yield from checks(vm, enabled, spec.interfaces)


def updated(
    spec: AwsSpec, last_applied: Mapping[str, Any] | None, vm: Vm, what: Mapping[str, TagChanges]
) -> Vm:
    """The instance afterwards, until EC2 shows it."""
    found, enabled = _by_key(vm), _checked(spec, last_applied)
    if vm.instance_id in what:
        found = tags.changed(found, what[vm.instance_id])
    vm = structs.replace(vm, tags=tuple(Tag(key=key, value=value) for key, value in found.items()))
    if enabled is None:
        return vm
    interfaces = tuple(structs.replace(each, source_dest_check=enabled) for each in vm.network_interfaces)
    return structs.replace(vm, source_dest_check=enabled, network_interfaces=interfaces)


def _checked(spec: AwsSpec, last_applied: Mapping[str, Any] | None) -> bool | None:
    """Whether packets are to be checked; None: what others have chosen stays."""
    last = tags.last_applied_switch(last_applied, CHECKS)
    return tags.switched(last, spec.src_and_dst_checks_enabled, default=True)


def _objects(spec: AwsSpec, vm: Vm, tags_of: TagsById) -> Mapping[str, tuple[str, Mapping[str, str]]]:
    made_with_it = {**spec.mandatory_tags, NAME: vm.tag(NAME)}

    def own(ids: Sequence[str], resource: str) -> Mapping[str, tuple[str, Mapping[str, str]]]:
        found = {each: tags_of.get(each, {}) for each in ids}
        return {each: (resource, has) for each, has in found.items() if made_with_it.items() <= has.items()}

    return {
        vm.instance_id: (VM, _by_key(vm)),
        **own([each.network_interface_id for each in vm.interfaces], NETWORK),
        **own(vm.volumes, DISK),
    }


def _alike(what: Mapping[str, TagChanges]) -> Sequence[tuple[TagChanges, Sequence[str]]]:
    """The changes, each with the ids of all objects that have the same."""
    found: list[tuple[TagChanges, list[str]]] = []
    for name, each in what.items():
        ids = next((ids for other, ids in found if other == each), None)
        if ids is None:
            found.append((each, [name]))
        else:
            ids.append(name)
    return found


def _by_key(vm: Vm) -> Mapping[str, str]:
    return {each.key: each.value for each in vm.tags}


def _of_users(said: Mapping[str, str]) -> Mapping[str, str]:
    """Those that a class may have: none of the driver's, and none of AWS's own."""
    return {
        key: value
        for key, value in said.items()
        if key != NAME and not key.startswith(OWN_TAGS) and not key.lower().startswith("aws:")
    }
