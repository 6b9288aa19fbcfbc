"""When two templates are the same, and the hash of one. Pure.

Theory.      A rollout replaces machines, so it happens only for what cannot be changed on a living
             machine. The node template, the configuration and the class's kind flow down to machines
             as they are, so they take no part; nor does the label that holds the hash itself.
             Sets are found by their template, never by their hash, so the hash may be any stable one.
Source       mcm.md §7.3.
"""

import msgspec
from msgspec import structs

from kubewright.api.machine import names
from kubewright.api.machine.v1alpha1 import ClassSpec, MachineSpec, MachineTemplateSpec
from kubewright.base.names import child_name, fnv32a, safe_encode

_NAME_LETTERS = 5


def identity(template: MachineTemplateSpec) -> bytes:
    """Equal for templates between which nothing is to be rolled out."""
    spec, labels = template.spec, dict(template.metadata.labels)
    labels.pop(names.TEMPLATE_HASH_LABEL, None)
    kept = MachineTemplateSpec(
        metadata=structs.replace(template.metadata, labels=labels, creation_timestamp=None),
        spec=MachineSpec(
            machine_class=ClassSpec(api_group=spec.machine_class.api_group, name=spec.machine_class.name),
            provider_id=spec.provider_id,
        ),
    )
    return msgspec.json.encode(kept, order="deterministic")


def template_hash(template: MachineTemplateSpec, collisions: int | None) -> str:
    """The value of the hash label: a decimal number that a collision changes."""
    tail = b"" if collisions is None else collisions.to_bytes(4, "little") + bytes(4)
    return str(fnv32a(identity(template) + tail))


def set_name(deployment: str, hashed: str) -> str:
    """``<deployment>-<five letters>``."""
    return child_name(deployment, safe_encode(hashed)[:_NAME_LETTERS])


def pushed_down(template: MachineTemplateSpec, wanted: MachineTemplateSpec) -> MachineTemplateSpec:
    """``template`` with everything that takes no part in ``identity`` as ``wanted`` has it."""
    mine = template.spec.machine_class
    spec = structs.replace(
        wanted.spec,
        provider_id=template.spec.provider_id,
        machine_class=ClassSpec(
            api_group=mine.api_group, kind=wanted.spec.machine_class.kind, name=mine.name
        ),
    )
    return structs.replace(template, spec=spec)


def without_hash(template: MachineTemplateSpec) -> MachineTemplateSpec:
    """A set's template as the deployment wrote it."""
    return structs.replace(template, metadata=structs.replace(template.metadata, labels=_unhashed(template)))


def with_hash(template: MachineTemplateSpec, hashed: str) -> MachineTemplateSpec:
    """A deployment's template as its set carries it."""
    labels = {**_unhashed(template), names.TEMPLATE_HASH_LABEL: hashed}
    return structs.replace(template, metadata=structs.replace(template.metadata, labels=labels))


def _unhashed(template: MachineTemplateSpec) -> dict[str, str]:
    return {key: value for key, value in template.metadata.labels.items() if key != names.TEMPLATE_HASH_LABEL}
