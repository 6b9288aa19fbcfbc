"""The cloud-config form of a machine's data.

Theory.      One YAML document under two header lines, of which the first makes cloud-init run it through
             Jinja. Values are written through a YAML library, so that no colon, quote or line break in a
             user's value can break it; upstream pastes them into a text. ``yaml_text`` keeps Jinja whole.
Invariants.  Pure; the header lines are exact. What is absent in the spec is absent here. ``inactive`` and
             ``enabled`` are written as they are given (upstream writes true for false).
Source       S1-28; docs/reference/bootstrap-data.md.
Called by    ``generation``.
"""

from collections.abc import Mapping
from typing import Any

from kubewright.api.bootstrap.v1beta1 import NTP, DiskSetup, File, Filesystem, Partition, User
from kubewright.bootstrap.userdata import UserData, commands, written_files
from kubewright.bootstrap.yaml_text import dumped, template

HEADER = "## template: jinja\n#cloud-config\n"

Section = dict[str, Any]


def cloud_config(data: UserData) -> str:
    """The text that cloud-init reads."""
    spec = data.spec
    sections = {
        "write_files": [_file(each) for each in written_files(data)],
        "runcmd": commands(data),
        "ntp": _ntp(spec.ntp) if spec.ntp is not None else None,
        "users": [_user(each) for each in data.users],
        **(_disks(spec.disk_setup) if spec.disk_setup is not None else {}),
        "mounts": [list(each) for each in spec.mounts],
    }
    return f"{HEADER}\n{dumped(template(_present(sections)))}"


def _file(file: File) -> Section:
    return _present(
        {
            "path": file.path,
            "encoding": file.encoding,
            "owner": file.owner,
            "permissions": file.permissions,
            "append": file.append or None,
        }
    ) | {"content": file.content if file.encoding else ended(file.content)}


def ended(text: str) -> str:
    """A text whose last line ends, as upstream writes it: what is appended to a file begins a line."""
    return f"{text}\n" if text and not text.endswith("\n") else text


def _ntp(ntp: NTP) -> Section:
    return _present({"enabled": ntp.enabled, "servers": list(ntp.servers)})


def _user(user: User) -> Section:
    return _present(
        {
            "name": user.name,
            "passwd": user.passwd,
            "gecos": user.gecos,
            "groups": user.groups,
            "homedir": user.home_dir,
            "inactive": user.inactive or None,
            "lock_passwd": user.lock_password,
            "shell": user.shell,
            "primary_group": user.primary_group,
            "sudo": user.sudo,
            "ssh_authorized_keys": list(user.ssh_authorized_keys),
        }
    )


def _disks(setup: DiskSetup) -> Section:
    return {
        "disk_setup": {each.device: _partition(each) for each in setup.partitions},
        "fs_setup": [_filesystem(each) for each in setup.filesystems],
    }


def _partition(partition: Partition) -> Section:
    return _present({"table_type": partition.table_type}) | {
        "layout": partition.layout,
        **_present({"overwrite": partition.overwrite}),
    }


def _filesystem(filesystem: Filesystem) -> Section:
    return _present(
        {
            "label": filesystem.label,
            "filesystem": filesystem.filesystem,
            "device": filesystem.device,
            "partition": filesystem.partition,
            "overwrite": filesystem.overwrite,
            "replace_fs": filesystem.replace_fs,
            "extra_opts": list(filesystem.extra_opts),
        }
    )


def _present(values: Mapping[str, Any]) -> Section:
    """What is there: neither None nor empty. False is there."""
    return {key: value for key, value in values.items() if value not in (None, "", [], {})}
