"""What an omitted field of a KubeadmConfig means.

Theory.      Upstream's webhook writes these into the object. Controllers apply them when they read one,
             so that an object which was written without the webhook means the same.
Invariants.  Pure and idempotent; a field that is set is never changed, a section that is absent stays so.
Source       capi.md §2.7, §13.4.
Called by    the admission of KubeadmConfig and KubeadmConfigTemplate; ``bootstrap`` before it decides.
"""

from msgspec import structs

from kubewright.api.bootstrap.names import Format
from kubewright.api.bootstrap.v1beta1 import (
    KubeadmConfig,
    KubeadmConfigSpec,
    KubeadmConfigTemplate,
    NodeRegistration,
)

PULL_POLICY = "IfNotPresent"


def with_defaults(config: KubeadmConfig) -> KubeadmConfig:
    """The KubeadmConfig as controllers must understand it."""
    return structs.replace(config, spec=defaulted(config.spec))


def template_with_defaults(template: KubeadmConfigTemplate) -> KubeadmConfigTemplate:
    """The template, its spec with the same defaults."""
    inner = template.spec.template
    changed = structs.replace(inner, spec=defaulted(inner.spec))
    return structs.replace(template, spec=structs.replace(template.spec, template=changed))


def defaulted(spec: KubeadmConfigSpec) -> KubeadmConfigSpec:
    """The spec with a format, and a pull policy in each section that is there."""
    init, join = spec.init_configuration, spec.join_configuration
    if init is not None:
        init = structs.replace(init, node_registration=_registration(init.node_registration))
    if join is not None:
        join = structs.replace(join, node_registration=_registration(join.node_registration))
    return structs.replace(
        spec,
        format=spec.format or Format.CLOUD_CONFIG.value,
        init_configuration=init,
        join_configuration=join,
    )


def _registration(given: NodeRegistration) -> NodeRegistration:
    return structs.replace(given, image_pull_policy=given.image_pull_policy or PULL_POLICY)
