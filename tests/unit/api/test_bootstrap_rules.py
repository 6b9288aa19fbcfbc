"""KubeadmConfig: what an omitted field means, which rules there are, and what survives reading and writing."""

import pytest
from msgspec import structs

from kubewright.api.bootstrap import names
from kubewright.api.bootstrap.parts import SecretKey, SecretSource
from kubewright.api.bootstrap.v1beta1 import (
    KUBEADM_CONFIG,
    BootstrapToken,
    BootstrapTokenDiscovery,
    ContainerLinuxConfig,
    Discovery,
    DiskSetup,
    File,
    Filesystem,
    IgnitionSpec,
    InitConfiguration,
    JoinConfiguration,
    KubeadmConfig,
    KubeadmConfigSpec,
    KubeadmConfigTemplate,
    KubeadmConfigTemplateResource,
    KubeadmConfigTemplateSpec,
    NodeRegistration,
    Partition,
    User,
)
from kubewright.api.bootstrap.validate import (
    template_with_defaults,
    validate_config,
    validate_template,
    with_defaults,
)

IGNITION = names.Format.IGNITION.value


def errors(**spec) -> list[str]:
    return [str(each) for each in validate_config(KubeadmConfig(spec=KubeadmConfigSpec(**spec)))]


def test_an_omitted_format_is_cloud_config() -> None:
    assert with_defaults(KubeadmConfig()).spec == KubeadmConfigSpec(format="cloud-config")


def test_a_section_that_is_there_gets_a_pull_policy_and_an_absent_one_stays_absent() -> None:
    made = with_defaults(KubeadmConfig(spec=KubeadmConfigSpec(join_configuration=JoinConfiguration()))).spec
    assert made.join_configuration is not None
    assert made.join_configuration.node_registration.image_pull_policy == "IfNotPresent"
    assert made.init_configuration is None


def test_what_is_set_is_not_changed() -> None:
    registration = NodeRegistration(image_pull_policy="Never")
    given = KubeadmConfig(
        spec=KubeadmConfigSpec(
            format=IGNITION, init_configuration=InitConfiguration(node_registration=registration)
        )
    )
    assert with_defaults(given) == given


def test_defaults_are_idempotent() -> None:
    once = with_defaults(KubeadmConfig(spec=KubeadmConfigSpec(init_configuration=InitConfiguration())))
    assert with_defaults(once) == once


def test_a_template_has_the_same_defaults_and_rules() -> None:
    spec = KubeadmConfigSpec(files=(File(path="/a"), File(path="/a")))
    resource = KubeadmConfigTemplateResource(spec=spec)
    template = KubeadmConfigTemplate(spec=KubeadmConfigTemplateSpec(template=resource))
    assert template_with_defaults(template).spec.template.spec == structs.replace(spec, format="cloud-config")
    assert [each.path for each in validate_template(template)] == ["spec.template.spec.files[1].path"]


SOURCE = SecretSource(secret=SecretKey(name="s", key="k"))
EMPTY = SecretSource()


@pytest.mark.parametrize(
    ("spec", "found"),
    [
        pytest.param({}, [], id="an empty spec is good"),
        pytest.param({"files": (File(path="/a", content_from=SOURCE),)}, [], id="content may come from a Secret"),
        pytest.param(
            {"files": (File(path="/a", content="x", content_from=SOURCE),)},
            ['spec.files[0]: Invalid value: "/a": only one of content or contentFrom may be specified for a single file'],
            id="a file has one source of content",
        ),
        pytest.param(
            {"files": (File(path="/a", content_from=EMPTY),)},
            [
                "spec.files[0].contentFrom.secret.name: Required value: secret file source must specify non-empty secret name",
                "spec.files[0].contentFrom.secret.key: Required value: secret file source must specify non-empty secret key",
            ],
            id="a source names a Secret and a key",
        ),
        pytest.param(
            {"files": (File(path="/a"), File(path="/b"), File(path="/a"))},
            ['spec.files[2].path: Invalid value: "/a": path property must be unique among all files'],
            id="a path comes once",
        ),
        pytest.param(
            {"users": (User(name="u", passwd="x", passwd_from=SOURCE),)},
            ['spec.users[0]: Invalid value: "u": only one of passwd or passwdFrom may be specified for a single user'],
            id="a user has one source of a password",
        ),
        pytest.param(
            {"mounts": ((),)},
            ["spec.mounts[0]: Invalid value: []: a mount names what is mounted and where"],
            id="a mount names something",
        ),
        pytest.param(
            {"ignition": IgnitionSpec(container_linux_config=ContainerLinuxConfig())},
            ['spec.format: Invalid value: "": must be set to "ignition" if spec.ignition is set'],
            id="what only Ignition has needs its format",
        ),
        pytest.param(
            {"format": IGNITION, "users": (User(name="u", inactive=True),)},
            ['spec.users[0].inactive: Forbidden: not supported when spec.format is set to: "ignition"'],
            id="Ignition has no inactive users",
        ),
        pytest.param(
            {"format": IGNITION, "users": (User(name="u", inactive=False),)}, [], id="an active user is no problem"
        ),
        pytest.param(
            {"format": IGNITION, "use_experimental_retry_join": True},
            ['spec.useExperimentalRetryJoin: Forbidden: not supported when spec.format is set to: "ignition"'],
            id="Ignition has no script with retries",
        ),
        pytest.param(
            {"format": IGNITION, "files": (File(path="/a", encoding="gzip+base64"), File(path="/b", encoding="base64"))},
            ['spec.files[0].encoding: Forbidden: not supported when spec.format is set to: "ignition"'],
            id="Ignition does not unpack",
        ),
        pytest.param(
            {
                "format": IGNITION,
                "disk_setup": DiskSetup(
                    partitions=(Partition(device="/dev/sda", table_type="gpt"), Partition(device="/dev/sdb", table_type="mbr")),
                    filesystems=(Filesystem(device="/dev/sda", replace_fs="ext3", partition="1"),),
                ),
            },
            [
                'spec.diskSetup.partitions[1].tableType: Invalid value: "mbr": only partition type "gpt" is supported when spec.format is set to "ignition"',
                'spec.diskSetup.filesystems[0].replaceFS: Forbidden: not supported when spec.format is set to: "ignition"',
                'spec.diskSetup.filesystems[0].partition: Forbidden: not supported when spec.format is set to: "ignition"',
            ],
            id="Ignition knows less about disks",
        ),
        pytest.param(
            {"format": IGNITION, "mounts": (("data",),)},
            ['spec.mounts[0]: Invalid value: ["data"]: a mount names what is mounted and where'],
            id="a mount unit needs to know where",
        ),
    ],
)  # fmt: skip
def test_every_broken_rule_is_reported(spec: dict[str, object], found: list[str]) -> None:
    assert errors(**spec) == found


@pytest.mark.parametrize(
    ("written", "read"),
    [
        pytest.param("{}", None, id="absent taints are kubeadm's own"),
        pytest.param('{"taints": null}', None, id="null is absent"),
        pytest.param('{"taints": []}', (), id="an empty list is no taints"),
    ],
)
def test_no_taints_are_not_absent_taints(written: str, read: object) -> None:
    raw = (
        f'{{"metadata": {{"name": "a"}}, "spec": {{"joinConfiguration": {{"nodeRegistration": {written}}}}}}}'
    )
    config = KUBEADM_CONFIG.decode(raw.encode())
    assert config.spec.join_configuration is not None
    assert config.spec.join_configuration.node_registration.taints == read
    again = KUBEADM_CONFIG.decode(KUBEADM_CONFIG.encode(config))
    assert again.spec.join_configuration == config.spec.join_configuration


def test_secrets_are_not_shown() -> None:
    secret = "s3cr3tpassword00"
    token = f"abcdef.{secret}"
    spec = KubeadmConfigSpec(
        init_configuration=InitConfiguration(bootstrap_tokens=(BootstrapToken(token=token),)),
        join_configuration=JoinConfiguration(
            discovery=Discovery(
                bootstrap_token=BootstrapTokenDiscovery(token=token), tls_bootstrap_token=token
            )
        ),
        files=(File(path="/a", content=secret),),
        users=(User(name="u", passwd=secret),),
    )
    assert secret not in repr(KubeadmConfig(spec=spec))
