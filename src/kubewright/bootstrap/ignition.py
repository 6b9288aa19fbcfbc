"""The Ignition form of a machine's data: version 2.3, as Flatcar reads it.

Theory.      Ignition runs before the system does, so kubeadm cannot run in it: a unit runs a script once,
             which calls kubeadm between the commands of the spec, writes the sentinel and moves kubeadm's
             document away, so that the unit does not run a second time. What a user adds in the notation of
             Container Linux is merged over all that (``containerlinux``).
Invariants.  Pure. Contents are data URLs. Modes are numbers. The name of a mount's unit is that which systemd
             demands for its path.
Source       the specification of Ignition 2.3.
Called by    ``generation``.
"""

import base64
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote

import msgspec

from kubewright.api.bootstrap import names
from kubewright.api.bootstrap.v1beta1 import DiskSetup, File, KubeadmConfigSpec, User
from kubewright.api.cluster.names import SENTINEL_FILE
from kubewright.base.errors import InvalidInput
from kubewright.bootstrap.cloudinit import ended
from kubewright.bootstrap.containerlinux.transpile import FILE_MODE, converted, merged
from kubewright.bootstrap.userdata import UserData

VERSION = "2.3.0"

Section = dict[str, Any]

KUBEADM_UNIT = f"""\
[Unit]
Description=kubeadm
# Once it was successful, this file is moved away.
ConditionPathExists={names.IGNITION_FILE}
After=network.target

[Service]
Type=oneshot
ExecStart={names.IGNITION_SCRIPT}

[Install]
WantedBy=multi-user.target
"""

SSHD = """\
Subsystem sftp internal-sftp
ClientAliveInterval 180
UseDNS no
UsePAM yes
PrintLastLog no
PrintMotd no

Match User {users}
  PasswordAuthentication yes
"""

NTP = """\
{servers}
restrict default nomodify nopeer noquery notrap limited kod
restrict 127.0.0.1
restrict [::1]
"""


def ignition(data: UserData) -> str:
    """The JSON that Ignition reads.

    Raises:
        InvalidInput: an addition cannot be expressed, or a file's mode or content is none.
    """
    spec, base = data.spec, _base(data)
    if spec.ignition is not None and (addition := spec.ignition.container_linux_config) is not None:
        base = merged(base, converted(addition.additional_config, strict=addition.strict))
    return msgspec.json.encode(base).decode()


def _base(data: UserData) -> Section:
    spec = data.spec
    storage: Section = {"files": [*_files(data)]}
    if spec.disk_setup is not None:
        storage |= _disks(spec.disk_setup)
    found: Section = {
        "ignition": {"version": VERSION},
        "storage": storage,
        "systemd": {"units": [*_units(spec)]},
    }
    if data.users:
        found["passwd"] = {"users": [_user(each) for each in data.users]}
    return found


def _files(data: UserData) -> Iterable[Section]:
    for user in data.users:
        if user.sudo:
            yield inline(f"/etc/sudoers.d/{user.name}", 0o600, f"{user.name} {user.sudo}\n")
    if logged_in := ",".join(each.name for each in data.users if each.lock_password is False):
        yield inline("/etc/ssh/sshd_config", 0o600, SSHD.format(users=logged_in))
    for file in data.files:
        yield _file(file)
    yield inline(names.IGNITION_SCRIPT, 0o700, _script(data))
    yield inline(names.IGNITION_FILE, 0o600, data.document)
    ntp = data.spec.ntp
    if ntp is not None and ntp.enabled and ntp.servers:
        lines = "\n".join(f"server {each}" for each in ntp.servers)
        yield inline("/etc/ntp.conf", 0o644, NTP.format(servers=lines))


def _script(data: UserData) -> str:
    """Calls kubeadm; ends at the first command that fails."""
    lines = [
        "#!/bin/bash",
        "set -e",
        *data.spec.pre_kubeadm_commands,
        data.kubeadm(names.IGNITION_FILE),
        f"mkdir -p {SENTINEL_FILE.rpartition('/')[0]} && echo success > {SENTINEL_FILE}",
        f"mv {names.IGNITION_FILE} /tmp/",
        *data.spec.post_kubeadm_commands,
    ]
    return "\n".join(lines) + "\n"


def inline(path: str, mode: int, content: str) -> Section:
    """A file of the root file system with text in it."""
    source = f"data:,{quote(content)}"
    return _at(path, mode) | {"contents": {"source": source}}


def _at(path: str, mode: int) -> Section:
    return {"filesystem": "root", "path": path, "mode": mode}


def _file(file: File) -> Section:
    """A file with its owner; base64 stays what it is."""
    found = _at(file.path, _mode(file))
    if file.encoding == "base64":
        found["contents"] = {"source": f"data:;base64,{_base64(file)}"}
    else:
        found["contents"] = {"source": f"data:,{quote(ended(file.content))}"}
    user, _, group = (part.strip() for part in file.owner.partition(":"))
    if user:
        found["user"] = {"name": user}
    if group:
        found["group"] = {"name": group}
    if file.append:
        found["append"] = True
    return found


def _mode(file: File) -> int:
    """A file's mode; Ignition would make one without a mode unreadable."""
    if not file.permissions:
        return FILE_MODE
    try:
        return int(file.permissions, 8)
    except ValueError:
        raise InvalidInput(
            f"file {file.path}: permissions {file.permissions!r} are no octal number"
        ) from None


def _base64(file: File) -> str:
    try:
        return base64.b64encode(base64.b64decode("".join(file.content.split()), validate=True)).decode()
    except ValueError:
        raise InvalidInput(f"file {file.path}: its content is not base64, as its encoding says") from None


def _units(spec: KubeadmConfigSpec) -> Iterable[Section]:
    yield {"name": "kubeadm.service", "enabled": True, "contents": KUBEADM_UNIT}
    if spec.ntp is not None and spec.ntp.enabled:
        yield {"name": "ntpd.service", "enabled": True}
    filesystems = spec.disk_setup.filesystems if spec.disk_setup is not None else ()
    devices = {each.label: each.device for each in filesystems}
    for what, where, *options in (each for each in spec.mounts if len(each) >= 2):
        yield {
            "name": unit_name(where),
            "enabled": True,
            "contents": _mount(what, devices.get(what, what), where, options),
        }


def _mount(label: str, device: str, where: str, options: Iterable[str]) -> str:
    given = ",".join(options)
    lines = [f"Description=Mount {label}", "", "[Mount]", f"What={device}", f"Where={where}"]
    lines += [f"Options={given}"] if given else []
    return "\n".join(["[Unit]", *lines, "", "[Install]", "WantedBy=multi-user.target", ""])


def unit_name(path: str) -> str:
    """The unit of a mount: slashes are dashes, and what else is no letter or digit is escaped."""
    parts = [part for part in path.split("/") if part]
    return ("-".join(_escaped(part, first=not number) for number, part in enumerate(parts)) or "-") + ".mount"


def _escaped(part: str, *, first: bool) -> str:
    def one(number: int, byte: int) -> str:
        char = chr(byte)
        plain = char.isascii() and (char.isalnum() or char in "_.:")
        return char if plain and not (char == "." and first and not number) else f"\\x{byte:02x}"

    return "".join(one(number, byte) for number, byte in enumerate(part.encode()))


def _user(user: User) -> Section:
    found = {
        "name": user.name,
        "gecos": user.gecos,
        "groups": [part.strip() for part in (user.groups or "").split(",") if part.strip()],
        "homeDir": user.home_dir,
        "shell": user.shell,
        "passwordHash": user.passwd,
        "primaryGroup": user.primary_group,
        "sshAuthorizedKeys": list(user.ssh_authorized_keys),
    }
    return _present(found)


def _disks(setup: DiskSetup) -> Section:
    disks: list[Section] = [
        {"device": each.device}
        | ({} if each.overwrite is None else {"wipeTable": each.overwrite})
        | ({"partitions": [{}]} if each.layout else {})
        for each in setup.partitions
    ]
    filesystems = [
        {
            "name": each.label,
            "mount": _present({"device": each.device, "format": each.filesystem, "label": each.label})
            | {"wipeFilesystem": bool(each.overwrite)}
            | _present({"options": list(each.extra_opts)}),
        }
        for each in setup.filesystems
    ]
    return _present({"disks": disks, "filesystems": filesystems})


def _present(values: Mapping[str, Any]) -> Section:
    return {key: value for key, value in values.items() if value not in (None, "", [])}
