"""What stands on a machine before kubeadm runs: files, users, disks, time.

Theory.      The fields follow cloud-init's modules; ``bootstrap.cloudinit`` writes them for cloud-init,
             ``bootstrap.ignition`` for Ignition.
Invariants.  Content of files and hashes of passwords are not shown in a ``repr``: they may be secrets.
Source       capi.md §2.7.
Called by    ``configs``.
"""

from typing import Annotated

from msgspec import field

from kubewright.api.meta import Value, doc

ENCODINGS = ("base64", "gzip", "gzip+base64")


class SecretKey(Value, frozen=True, kw_only=True):
    """One key of a Secret in the namespace of the KubeadmConfig."""

    name: Annotated[str, doc("The name of the Secret.", required=True)] = ""
    key: Annotated[str, doc("The key in its data.", required=True)] = ""


class SecretSource(Value, frozen=True, kw_only=True):
    """Where a value is read from: a key of a Secret."""

    secret: Annotated[SecretKey, doc("Where it is.", required=True)] = field(default_factory=SecretKey)


class File(Value, frozen=True, kw_only=True):
    """A file to write."""

    path: Annotated[str, doc("Its full path; each path at most once.", required=True)] = ""
    owner: Annotated[str, doc("user:group that owns it; root:root if empty.")] = ""
    permissions: Annotated[str, doc("Its mode in octal, such as 0640.")] = ""
    encoding: Annotated[str, doc("How content is encoded.", enum=list(ENCODINGS))] = ""
    append: Annotated[bool, doc("Adds to a file that is there already.")] = False
    content: Annotated[str, doc("The content itself.")] = ""
    content_from: Annotated[SecretSource | None, doc("Where the content is read from instead.")] = None

    def __repr__(self) -> str:
        return f"File({self.path})"


class User(Value, frozen=True, kw_only=True):
    """A user of the machine."""

    name: Annotated[str, doc("The login name.", required=True)] = ""
    gecos: Annotated[str | None, doc("The user's full name or a note.")] = None
    groups: Annotated[str | None, doc("Further groups, with commas.")] = None
    home_dir: Annotated[str | None, doc("The home folder.")] = None
    inactive: Annotated[bool | None, doc("Whether the account is made inactive.")] = None
    shell: Annotated[str | None, doc("The login shell.")] = None
    passwd: Annotated[str | None, doc("The hash of the password.")] = None
    passwd_from: Annotated[SecretSource | None, doc("Where that hash is read from instead.")] = None
    primary_group: Annotated[str | None, doc("The first group.")] = None
    lock_password: Annotated[bool | None, doc("Whether to forbid a login by password.")] = None
    sudo: Annotated[str | None, doc("A rule of sudoers for the user.")] = None
    ssh_authorized_keys: Annotated[tuple[str, ...], doc("Public keys that may log in.")] = ()

    def __repr__(self) -> str:
        return f"User({self.name})"


class NTP(Value, frozen=True, kw_only=True):
    """Where a machine gets the time from."""

    servers: Annotated[tuple[str, ...], doc("The time servers.")] = ()
    enabled: Annotated[bool | None, doc("Whether the machine runs an NTP client.")] = None


class Partition(Value, frozen=True, kw_only=True):
    """How a disk is divided."""

    device: Annotated[str, doc("The disk, such as /dev/sdb.", required=True)] = ""
    layout: Annotated[bool, doc("Whether to make one partition over all of it.", required=True)] = False
    overwrite: Annotated[bool | None, doc("Whether to divide it even if it is divided already.")] = None
    table_type: Annotated[str | None, doc("mbr or gpt; mbr if absent.")] = None


class Filesystem(Value, frozen=True, kw_only=True):
    """A file system to make."""

    device: Annotated[str, doc("Where, such as /dev/sdb.", required=True)] = ""
    filesystem: Annotated[str, doc("Its type, such as ext4.", required=True)] = ""
    label: Annotated[str, doc("Its label.", required=True)] = ""
    partition: Annotated[str | None, doc("Which partition: auto, any, none or a number.")] = None
    overwrite: Annotated[bool | None, doc("Whether to overwrite a file system that is there.")] = None
    replace_fs: Annotated[str | None, doc("Overwrites only a file system of this type.")] = field(
        default=None, name="replaceFS"
    )
    extra_opts: Annotated[tuple[str, ...], doc("Further arguments of mkfs.")] = ()


class DiskSetup(Value, frozen=True, kw_only=True):
    """Disks and file systems of a machine."""

    partitions: Annotated[tuple[Partition, ...], doc("How disks are divided.")] = ()
    filesystems: Annotated[tuple[Filesystem, ...], doc("File systems to make.")] = ()


class ContainerLinuxConfig(Value, frozen=True, kw_only=True):
    """An addition in the notation of Container Linux."""

    additional_config: Annotated[str, doc("YAML that is merged over what is made here.")] = ""
    strict: Annotated[bool, doc("Whether a warning about it is an error.")] = False


class IgnitionSpec(Value, frozen=True, kw_only=True):
    """What only Ignition knows."""

    container_linux_config: Annotated[
        ContainerLinuxConfig | None, doc("An addition to the Ignition config.")
    ] = None
