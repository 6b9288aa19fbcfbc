"""A machine as its set's template makes it: complete, so that no controller has to write it again.

Theory.      A new machine carries the finalizer and the default priority from its first moment;
             MCM adds both later, with a write each. What a set pushes down to living machines is
             the node template, the configuration and the class's kind; labels and annotations are
             for new machines only (mcm.md §6.4, §6.7).
"""

from collections.abc import Mapping
from typing import Any

from msgspec import structs

from kubewright.api.diff import merge_patch
from kubewright.api.machine import excess, names, updates
from kubewright.api.machine.v1alpha1 import MACHINE_SET, Machine, MachineSet
from kubewright.api.meta import ObjectMeta, with_finalizer
from kubewright.base.durations import format_duration
from kubewright.replicas.member import number_of
from kubewright.replicas.objects import reference


def new_machine(machine_set: MachineSet, name: str) -> Machine:
    """The machine ``name`` of a set."""
    template = machine_set.spec.template
    annotations = {names.PRIORITY_ANNOTATION: str(names.DEFAULT_PRIORITY), **template.metadata.annotations}
    if number := number_of(machine_set.metadata.uid, name):
        annotations[names.NUMBER_ANNOTATION] = str(number)
    spec = structs.replace(template.spec, provider_id="")  # a VM is never shared
    override = names.creation_timeout_override(machine_set.metadata.annotations)
    if override is not None:
        annotations[names.EFFECTIVE_CREATION_TIMEOUT_ANNOTATION] = format_duration(override)
        spec = structs.replace(spec, creation_timeout=format_duration(override))
    return Machine(
        metadata=ObjectMeta(
            name=name,
            namespace=machine_set.metadata.namespace,
            labels=template.metadata.labels,
            annotations=annotations,
            finalizers=tuple(with_finalizer(template.metadata.finalizers, names.FINALIZER)),
            owner_references=(reference(machine_set, MACHINE_SET),),
        ),
        spec=spec,
    )


def configuration_patch(machine_set: MachineSet, machine: Machine) -> dict[str, Any]:
    """What must change in a machine so that it has the template's node template and configuration. The taints
    of a machine that is kept free are no template's."""
    spec, wanted = machine.spec, machine_set.spec.template.spec
    timeout = wanted.creation_timeout
    if names.creation_timeout_override(machine.metadata.annotations) is not None:
        timeout = spec.creation_timeout
    target = structs.replace(
        wanted,
        provider_id=spec.provider_id,
        machine_class=structs.replace(spec.machine_class, kind=wanted.machine_class.kind),
        creation_timeout=timeout,
    )
    patch = merge_patch(spec, excess.carried(spec, target))
    return {"spec": patch} if patch else {}


def moved_patch(machine: Machine, source: MachineSet, target: MachineSet) -> dict[str, Any]:
    """What makes a machine of ``source``, which was updated in place, one of ``target``: owner, labels,
    annotations and class as the template of ``target`` has them. What others wrote on the machine stays.

    What the VM has of its class changes by that, but for what only a driver can change (``machine.applied``).
    The mark ``update-result`` says that the size of ``target`` may not count the machine yet.
    """
    meta, old, new = machine.metadata, source.spec.template.metadata, target.spec.template.metadata
    owners = tuple(owner for owner in meta.owner_references if owner.uid != source.metadata.uid)
    labels = {**_without(meta.labels, old.labels), **new.labels}
    labels[updates.UPDATE_RESULT_LABEL] = updates.UpdateResult.SUCCESSFUL
    noted = {**_without(meta.annotations, old.annotations), **new.annotations}
    other = target.spec.template.spec.machine_class.name != machine.spec.machine_class.name
    if other and names.APPLIED_CLASS_ANNOTATION in noted:
        noted[names.APPLIED_CLASS_ANNOTATION] = ""
    after = structs.replace(
        machine,
        metadata=structs.replace(
            meta,
            labels=labels,
            annotations=noted,
            owner_references=(*owners, reference(target, MACHINE_SET)),
        ),
        spec=structs.replace(machine.spec, machine_class=target.spec.template.spec.machine_class),
    )
    return merge_patch(machine, after)


def _without(found: Mapping[str, str], template: Mapping[str, str]) -> dict[str, str]:
    """Those that the template did not give, or that have had another value since."""
    return {key: text for key, text in found.items() if template.get(key) != text}
