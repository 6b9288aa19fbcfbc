"""When two templates of machines are the same, and what their sets are called. Pure.

Theory.      A rollout replaces machines, so it happens only for what cannot be changed on a living
             machine. The node template, the configuration and the class's kind flow down to machines
             as they are, so they take no part; nor does the label that holds the hash itself.
             Sets are found by their template, never by their hash, so the hash may be any stable one.
Source       mcm.md §7.3.
"""

import msgspec
from msgspec import structs

from kubewright.api.machine import names
from kubewright.api.machine.v1alpha1 import ClassSpec, MachineDeployment, MachineSpec, MachineTemplateSpec
from kubewright.base.names import child_name, fnv32a, safe_encode
from kubewright.replicas.objects import with_hash

_NAME_LETTERS = 5


def identity(template: MachineTemplateSpec) -> bytes:
    """Equal for templates between which nothing is to be rolled out."""
    spec = template.spec
    kept = MachineTemplateSpec(
        metadata=structs.replace(
            with_hash(template, names.TEMPLATE_HASH_LABEL, "").metadata, creation_timestamp=None
        ),
        spec=MachineSpec(
            machine_class=ClassSpec(api_group=spec.machine_class.api_group, name=spec.machine_class.name),
            provider_id=spec.provider_id,
        ),
    )
    return msgspec.json.encode(kept, order="deterministic")


def name_and_hash(deployment: MachineDeployment) -> tuple[str, str]:
    """``<deployment>-<five letters>``, and a decimal number that a collision changes."""
    collisions = deployment.status.collision_count
    tail = b"" if collisions is None else collisions.to_bytes(4, "little") + bytes(4)
    hashed = str(fnv32a(identity(deployment.spec.template) + tail))
    return child_name(deployment.name, safe_encode(hashed)[:_NAME_LETTERS]), hashed


def propagated_template(template: MachineTemplateSpec, wanted: MachineTemplateSpec) -> MachineTemplateSpec:
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
