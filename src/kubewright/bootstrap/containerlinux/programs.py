"""The short forms of a Container Linux Config for programs of the system, as units and files.

Theory.      ``etcd``, ``flannel`` and ``docker`` become drop-ins of their units, ``update`` and
             ``locksmith`` one file. An option is a flag of the same name, and a text in one is quoted as Go
             quotes it.
Invariants.  Pure. Options keep the order of their table. A brace in an option would be a variable of a
             platform, and Cluster API names none, so it is an error.
Source       the notation's published specification.
Called by    ``transpile``.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kubewright.bootstrap.containerlinux import options, rules
from kubewright.bootstrap.containerlinux.notation import Report, Tree, is_json_object

UPDATE_FILE = "/etc/coreos/update.conf"
NETWORK_KEY = "/coreos.com/network/config"

_UPDATE = {
    "server": "SERVER",
    "pcr_policy_server": "PCR_POLICY_SERVER",
    "download_user": "DOWNLOAD_USER",
    "download_password": "DOWNLOAD_PASSWORD",
    "machine_alias": "MACHINE_ALIAS",
}
_LOCKSMITH = {
    "reboot_strategy": "REBOOT_STRATEGY",
    "window_start": "LOCKSMITHD_REBOOT_WINDOW_START",
    "window_length": "LOCKSMITHD_REBOOT_WINDOW_LENGTH",
    "group": "LOCKSMITHD_GROUP",
    "etcd_endpoints": "LOCKSMITHD_ENDPOINT",
    "etcd_cafile": "LOCKSMITHD_ETCD_CAFILE",
    "etcd_certfile": "LOCKSMITHD_ETCD_CERTFILE",
    "etcd_keyfile": "LOCKSMITHD_ETCD_KEYFILE",
}
_GROUPS, _STRATEGIES = ("stable", "beta", "alpha"), ("reboot", "etcd-lock", "off")
_WINDOW = re.compile(r"\s*(?:(sun|mon|tue|wed|thu|fri|sat)\s+)?(?:[01]?\d|2[0-3]):[0-5]\d", re.IGNORECASE)
_DURATION = re.compile(r"[-+]?(?:0|(?:(?:\d+(?:\.\d*)?|\.\d+)(?:ns|us|µs|μs|ms|s|m|h))+)")
_NAMED = {
    "\a": r"\a",
    "\b": r"\b",
    "\f": r"\f",
    "\n": r"\n",
    "\r": r"\r",
    "\t": r"\t",
    "\v": r"\v",
    '"': r"\"",
    "\\": r"\\",
}


def quoted(text: str) -> str:
    """A text as Go quotes it."""
    return f'"{"".join(map(_quoted, text))}"'


def _quoted(char: str) -> str:
    if char in _NAMED:
        return _NAMED[char]
    if char.isprintable():
        return char
    code = ord(char)
    if "\udc80" <= char <= "\udcff":  # a byte that is no UTF-8
        return f"\\x{code - 0xDC00:02x}"
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def units(given: Tree, report: Report) -> Iterator[Tree]:
    """The units that programs get."""
    if (docker := given.get("docker")) is not None:
        options_line = f'Environment="DOCKER_OPTS={" ".join(docker.get("flags", ()))}"'
        yield _unit("docker.service", "20-clct-docker.conf", ["[Service]", options_line])
    if (etcd := given.get("etcd")) is not None:
        lines = _service("/usr/lib/coreos/etcd-wrapper $ETCD_OPTS", "ETCD_IMAGE_TAG", "etcd", etcd, report)
        yield _unit("etcd-member.service", "20-clct-etcd-member.conf", lines)
    if (flannel := given.get("flannel")) is not None:
        start = "/usr/lib/coreos/flannel-wrapper $FLANNEL_OPTS"
        lines = _service(start, "FLANNEL_IMAGE_TAG", "flannel", flannel, report)
        yield _unit("flanneld.service", "20-clct-flannel.conf", [*lines, *_network_of(flannel, report)])


def _unit(name: str, dropin: str, lines: Iterable[str]) -> Tree:
    return {"name": name, "enable": True, "dropins": [{"name": dropin, "contents": "\n".join(lines)}]}


def _service(start: str, tag: str, program: str, given: Mapping[str, Any], report: Report) -> list[str]:
    """The lines of a drop-in that starts a program with its options."""
    version = given.get("version")
    flags = [
        f"--{options.FLAGS.get(name, name).replace('_', '-')}={_shown(value)}"
        for name, value in _in_order(program, given, version)
    ]
    if any("{" in each or "}" in each for each in flags):
        report.errors.append(f"{program} has a variable in braces, and no platform is known to fill it in")
    lines = ["[Service]"]
    if version is not None:
        lines.append(f'Environment="{tag}=v{version}"')
    return [*lines, "ExecStart=", " \\\n  ".join([f"ExecStart={start}", *flags])]


def _in_order(program: str, given: Mapping[str, Any], version: str | None) -> Iterator[tuple[str, Any]]:
    default = options.ETCD_DEFAULT if program == "etcd" else options.FLANNEL_DEFAULT
    major, minor, patch = map(int, re.findall(r"\d+", version)[:3]) if version else default
    known = options.etcd if program == "etcd" else options.flannel
    for name in known((major, minor, patch)):
        if name in given:
            yield name, given[name]


def _shown(value: Any) -> str:
    if isinstance(value, str):
        return quoted(value)
    return str(value).lower()


def _network_of(flannel: Mapping[str, Any], report: Report) -> list[str]:
    """The line that writes flannel's network into etcd before it starts."""
    network = flannel.get("network_config", "")
    if not network:
        return []
    if not is_json_object(network):
        report.errors.append("flannel.network_config is no object in JSON")
    if flannel.get("kube_subnet_mgr"):
        report.errors.append("flannel.network_config cannot be beside kube_subnet_mgr")
    words = ["ExecStartPre=/usr/bin/etcdctl"]
    for name, flag in (
        ("etcd_endpoints", "endpoints"),
        ("etcd_cafile", "ca-file"),
        ("etcd_certfile", "cert-file"),
        ("etcd_keyfile", "key-file"),
    ):
        if name in flannel:
            words.append(f"--{flag}={quoted(flannel[name])}")
    return [" ".join([*words, "set", NETWORK_KEY, quoted(network)])]


def update_file(given: Tree, report: Report) -> str:
    """The content of ``UPDATE_FILE``; empty: there is none."""
    contents = ""
    if (update := given.get("update")) is not None:
        contents = _update(update, report)
    if (locksmith := given.get("locksmith")) is not None:
        _check_locksmith(locksmith, report)
        lines = [f"{_LOCKSMITH[name]}={quoted(locksmith[name])}" for name in _LOCKSMITH if name in locksmith]
        contents += "".join(f"\n{each}" for each in lines)
    return contents


def _update(update: Mapping[str, str], report: Report) -> str:
    group, server = update.get("group", ""), update.get("server", "")
    if group.lower() not in _GROUPS and not server:
        report.remarks.append(f"update.group is none of {', '.join(_GROUPS)}, and there is no update.server")
    if not rules.is_url(server):
        report.errors.append("update.server is no URL")
    contents = f"GROUP={group.lower()}" if group else ""
    return contents + "".join(f"\n{_UPDATE[name]}={update[name]}" for name in _UPDATE if update.get(name))


def _check_locksmith(given: Mapping[str, str], report: Report) -> None:
    strategy, start, length = (
        given.get(name, "") for name in ("reboot_strategy", "window_start", "window_length")
    )
    if strategy and strategy.lower() not in _STRATEGIES:
        report.errors.append(f"locksmith.reboot_strategy is none of {', '.join(_STRATEGIES)}")
    if bool(start) != bool(length):
        report.errors.append("locksmith.window_start and window_length belong together")
    if start and _WINDOW.match(start) is None:
        report.errors.append("locksmith.window_start is no time such as 14:00 or Sun 14:00")
    if length and _DURATION.fullmatch(length) is None:
        report.errors.append("locksmith.window_length is no duration such as 1h30m")
