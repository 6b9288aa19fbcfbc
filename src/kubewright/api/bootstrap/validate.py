"""What an omitted field of a KubeadmConfig means, and the rules beyond its schema.

Theory.      A rule that upstream's webhook has, has its message here too, because users search for it. Mounts
             that the format cannot express are refused as well: upstream, they fail on the machine only.
             Upstream has Ignition behind a feature gate; here it is on; what it cannot express is refused.
             Upstream's webhook writes defaults into the object; controllers apply them when they read one, so
             that an object which was written without the webhook means the same.
Invariants.  Pure. Defaults are idempotent; a field that is set is never changed, a section that is absent
             stays so. Every violation is reported, in the order of the fields. No content of a file and no
             password is in a message.
Called by    the admission of KubeadmConfig and KubeadmConfigTemplate; ``bootstrap``, since an object may have
             been written without it.
"""

from msgspec import structs

from kubewright.api.bootstrap.names import Format
from kubewright.api.bootstrap.parts import SecretSource
from kubewright.api.bootstrap.v1beta1 import (
    DiskSetup,
    KubeadmConfig,
    KubeadmConfigSpec,
    KubeadmConfigTemplate,
    NodeRegistration,
)
from kubewright.api.faults import Errors, Fault, FieldError

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


ONE_CONTENT = "only one of content or contentFrom may be specified for a single file"
ONE_PASSWORD = "only one of passwd or passwdFrom may be specified for a single user"  # words, no password
UNIQUE_PATH = "path property must be unique among all files"
NAMED_SECRET = "secret file source must specify non-empty secret name"
NAMED_KEY = "secret file source must specify non-empty secret key"
DEPRECATED = "is deprecated: kubeadm itself repeats what fails while it joins"
NOT_WITH_IGNITION = f'not supported when spec.format is set to: "{Format.IGNITION}"'


def validate_config(config: KubeadmConfig) -> list[FieldError]:
    """Every broken rule of a KubeadmConfig; empty when it is good."""
    return validate_spec(config.spec, "spec")


def validate_template(template: KubeadmConfigTemplate) -> list[FieldError]:
    """Every broken rule of a KubeadmConfigTemplate; empty when it is good."""
    return validate_spec(template.spec.template.spec, "spec.template.spec")


def validate_spec(spec: KubeadmConfigSpec, path: str) -> list[FieldError]:
    """Every broken rule of a spec that stands at ``path``."""
    return [*_files(spec, path), *_users(spec, path), *_mounts(spec, path), *_ignition(spec, path)]


def config_warnings(config: KubeadmConfig) -> list[str]:
    """What the writer of a KubeadmConfig should know."""
    return spec_warnings(config.spec, "spec")


def template_warnings(template: KubeadmConfigTemplate) -> list[str]:
    """What the writer of a KubeadmConfigTemplate should know."""
    return spec_warnings(template.spec.template.spec, "spec.template.spec")


def spec_warnings(spec: KubeadmConfigSpec, path: str) -> list[str]:
    """The same of a spec that stands at ``path``."""
    return [f"{path}.useExperimentalRetryJoin {DEPRECATED}"] if spec.use_experimental_retry_join else []


def _files(spec: KubeadmConfigSpec, path: str) -> Errors:
    paths = set()
    for number, file in enumerate(spec.files):
        where = f"{path}.files[{number}]"
        if file.content and file.content_from is not None:
            yield FieldError(where, ONE_CONTENT, Fault.INVALID, file.path)
        yield from _source(file.content_from, f"{where}.contentFrom")
        if file.path in paths:
            yield FieldError(f"{where}.path", UNIQUE_PATH, Fault.INVALID, file.path)
        paths.add(file.path)


def _users(spec: KubeadmConfigSpec, path: str) -> Errors:
    for number, user in enumerate(spec.users):
        where = f"{path}.users[{number}]"
        if user.passwd is not None and user.passwd_from is not None:
            yield FieldError(where, ONE_PASSWORD, Fault.INVALID, user.name)
        yield from _source(user.passwd_from, f"{where}.passwdFrom")


def _source(source: SecretSource | None, path: str) -> Errors:
    if source is None:
        return
    if not source.secret.name:
        yield FieldError(f"{path}.secret.name", NAMED_SECRET)
    if not source.secret.key:
        yield FieldError(f"{path}.secret.key", NAMED_KEY)


def _mounts(spec: KubeadmConfigSpec, path: str) -> Errors:
    least = 2 if spec.format == Format.IGNITION else 1
    for number, mount in enumerate(spec.mounts):
        if len(mount) < least:
            told = "a mount names what is mounted and where"
            yield FieldError(f"{path}.mounts[{number}]", told, Fault.INVALID, list(mount))


def _ignition(spec: KubeadmConfigSpec, path: str) -> Errors:
    """What only Ignition has, and what it has not."""
    if spec.format != Format.IGNITION:
        if spec.ignition is not None:
            told = f'must be set to "{Format.IGNITION}" if spec.ignition is set'
            yield FieldError(f"{path}.format", told, Fault.INVALID, spec.format)
        return
    for number, user in enumerate(spec.users):
        if user.inactive:
            yield _forbidden(f"{path}.users[{number}].inactive")
    if spec.use_experimental_retry_join:
        yield _forbidden(f"{path}.useExperimentalRetryJoin")
    for number, file in enumerate(spec.files):
        if "gzip" in file.encoding:
            yield _forbidden(f"{path}.files[{number}].encoding")
    if spec.disk_setup is not None:
        yield from _ignition_disks(spec.disk_setup, f"{path}.diskSetup")


def _ignition_disks(setup: DiskSetup, path: str) -> Errors:
    for number, partition in enumerate(setup.partitions):
        if partition.table_type not in (None, "gpt"):
            told = f'only partition type "gpt" is supported when spec.format is set to "{Format.IGNITION}"'
            yield FieldError(
                f"{path}.partitions[{number}].tableType", told, Fault.INVALID, partition.table_type
            )
    for number, filesystem in enumerate(setup.filesystems):
        where = f"{path}.filesystems[{number}]"
        if filesystem.replace_fs is not None:
            yield _forbidden(f"{where}.replaceFS")
        if filesystem.partition is not None:
            yield _forbidden(f"{where}.partition")


def _forbidden(path: str) -> FieldError:
    return FieldError(path, NOT_WITH_IGNITION, Fault.FORBIDDEN)
