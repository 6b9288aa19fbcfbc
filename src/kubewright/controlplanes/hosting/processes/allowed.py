"""What a process of this machine may be asked to be: fields, arguments, variables and files. Pure.

Fields.      A pod may have what a process cannot: other containers, folders of its node, a network of its
             own. Such fields are reported, and the component does not run until they are removed: ignoring
             them silently would run something else than the user asked for. Fields about images, scheduling,
             and rights that a process does not have anyway, are ignored. Names of volumes and paths of mounts
             become folders of this machine, and ports of probes become addresses that this program asks: they
             are judged here, before anything is made of them.
Programs.    A user who may edit a component decides which arguments, variables and files its program has,
             and in a pod that is the end of it: a container has no other files. A process has those of this
             machine, with the rights of the user that it runs as. So the program comes from folders that the
             administrator named (``binaries``); each path that it is given, in an argument, in a variable or
             in a file of settings, has to be below one of its own mounts; it gets no variable by which a
             loader or a runtime would run or write something else; and no file of its own names a command to
             run, as a kubeconfig may. Arguments are judged as the program will get them, after all variables
             were filled in, so that no way of writing a path matters.
Invariants.  A field that is in no list here is reported, so fields that Kubernetes adds later are too. What
             is not certainly below a mount is refused. No message quotes the content of a file.
Called by    ``host``.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from hashlib import sha256
from itertools import islice
from typing import Any

import yaml

from kubewright.api.controlplane.names import Component
from kubewright.controlplanes.hosting.contract import Workload
from kubewright.processes.program import FILES, Command, Program
from kubewright.wire import goyaml
from kubewright.wire.quantity import parse

PROGRAM_OF: Mapping[Component, str] = {
    Component.ETCD: "etcd",
    Component.API_SERVER: "kube-apiserver",
    Component.CONTROLLER_MANAGER: "kube-controller-manager",
}
VARIABLE = re.compile(
    r"GOGC|GOMEMLIMIT|GOMAXPROCS|TZ|ETCD_[A-Z0-9_]+|KUBE_[A-Z0-9_]+|(?:HTTPS?|NO|https?|no)_(?:PROXY|proxy)"
)
"""Variables of a container that its process gets. Any other is only for ``$(NAME)`` in arguments."""
WORKING = "/proc/self/cwd"
"""The working folder of the process that opens this path; the folders above it need not be readable."""
VOLUMES = "volumes"
"""The folder of an instance for its writable volumes."""
TOLD_CHARS = 120
NAMED_BY = re.compile(r"\$\(([^()]+)\)")

_URL = re.compile(r"\bhttps?://[^\s,;\"'\\]*")
_NETWORK = re.compile(r"::/[0-9]{1,3}(?=$|,)")
"""The end of a range of IPv6 addresses."""
_SCHEME = re.compile(
    r"(?<![a-z0-9+.-])(?!https?://)[0-9+.-]*+[a-z][a-z0-9+.-]*+://|\b(?:unix|unixs|file):", re.IGNORECASE
)
"""Begins only where a name of a scheme can, so that a long text is looked at once."""
_BEFORE = r"(?:^|[\s=,:;#@|\"'(\[{])"
_UPWARDS = re.compile(r"(?:^|[\s=,:;#@|\"'(\[{/\\])\.\.(?:$|[\s=,:;#@|\"')\]}/\\])")
_ABSOLUTE = re.compile(rf"{_BEFORE}(?:/|~)")
_NAMES_FILE = re.compile(
    r"(?:file|dir|path|kubeconfig|config|outputs|manifest|certificate|authority|key|endpoint"
    r"|filepath-hostpath|filepath-nfs)$"
)
"""How the name of a flag ends whose value is a path, also where that is a relative one."""
_NO_FILE = frozenset({"runtime-config", "log-rotation-config-json", "tls-sni-cert-key"})
"""Flags whose names end so, and whose values have other parts too; a relative path there is only read."""
_PATHS_OF_URLS = frozenset(
    {"etcd-prefix", "etcd-servers-overrides", "authorization-always-allow-paths", "cors-allowed-origins"}
)
"""Flags whose values look like paths, and are keys, URLs or patterns."""
_OUTPUTS = frozenset({"", "-", "default", "stdout", "stderr", "systemd/journal", "/dev/null"})
"""Values that such a flag may have beside a path below a mount."""
_WRITES = re.compile(r"(?:outputs|log-path|data-dir|wal-dir|cert-dir|socket-path)$")
_READS = re.compile(r"(?:kubeconfig|config|config-file|manifest|plugin-dir)$")
"""How the names of flags end of which one could undo what is judged here: a program that writes what it, or
the next one, then reads as its settings."""
SETTINGS, DATA = "\x01", "\x02"
"""Stand for the folders of files and of data of the program's own in a text that is judged."""

_TAG = rb"(?<![#0-9a-z])!"
"""What may begin a YAML tag: after ``!!binary`` a key is written so that its letters cannot be seen."""
_SECOND_LOOK = re.compile(
    rb"exec|auth-?provider|file|path|dir|certificate|key|uds|endpoint|output|\\|[^\x00-\x7f]|" + _TAG,
    re.IGNORECASE,
)
_MAY_RUN = re.compile(rb"exec|auth-?provider|\\u|\\x|" + _TAG, re.IGNORECASE)
_IN_PEM = re.compile(rb"[A-Za-z0-9+/]*={0,2}")
_PEM_BOUND = re.compile(rb"-----(BEGIN|END) ([A-Z0-9][A-Z0-9 ]*)-----")
_NOTE = re.compile(rb"(?:#[\t -~]*)?")
_RUNS = frozenset({"exec", "authprovider"})
_WRITTEN = frozenset({"datadir", "waldir", "logoutputs"})
"""Keys of etcd's file of settings."""
_FILE_KEY = re.compile(
    r"(?:file|path|dir|certificate|certificateauthority|clientkey|udsname|endpoint|outputs|socket)$"
)
LARGEST_SETTINGS = 512 * 1024
MOST_TOLD, DEEPEST = 5, 64
MOST_FOUND = 256


def problem_of_command(workload: Workload) -> str:
    """What is wrong with the command of a component, a sentence; empty if it is one name of a program."""
    container = workload.rendered.workload["spec"]["template"]["spec"]["containers"][0]
    words = list(container.get("command") or ())
    if len(words) != 1:
        return f"the command has {len(words)} words: it has to be the name of a program; the rest are args"
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._+-]*", str(words[0])):
        return (
            f"{_short(words[0])} is not the name of a program: spec.binary and command name one, without a "
            "path, in a folder of --component-programs or KUBEWRIGHT_ASSETS"
        )
    return ""


def variables_of(workload: Workload) -> Iterator[str]:
    """What is wrong with the variables of a container: those that no process gets and no argument names."""
    container = workload.rendered.workload["spec"]["template"]["spec"]["containers"][0]
    entries = container.get("env") or ()
    texts = [*(container.get("args") or ()), *(entry.get("value") or "" for entry in entries)]
    used = {name for text in texts for name in NAMED_BY.findall(str(text))}
    for number, entry in enumerate(entries):
        if not VARIABLE.fullmatch(entry["name"]) and entry["name"] not in used:
            yield (
                f"env[{number}]: the variable {_short(entry['name'])} cannot be set for a process of this "
                "machine; one that an argument names as $(NAME) can"
            )


def home_of(program: Program, programs: str) -> str:
    """The path of a program's own folder in its arguments. ``programs``: above the folders of all."""
    return WORKING if program.user else f"{programs}/{program.name}"


def problems(program: Program, home: str) -> Iterator[str]:
    """Why a program must not run: a sentence for each path outside of ``home``, and command in a file."""
    for flag, value in _flags(program.argv[1:]):
        if flag and not re.fullmatch(r"[a-z0-9][a-z0-9.-]*", flag):
            yield f"the argument {_short(flag)} is no flag"
        elif told := _outside(flag, value, home):
            yield f"the argument {_short(f'--{flag}' if flag else value)} {told}"
    for name, value in program.environment.items():
        if VARIABLE.fullmatch(name) and (told := _outside(_flag_of(name), value, home)):
            yield f"the variable {name} {told}"
    for path, content in program.files.items():
        for told in _settings(content):
            yield f"file {_short(path)}: {told}"


def runs_commands(program: Program) -> bool:
    """Whether a probe of this program runs a command."""
    probes = (program.startup, program.readiness, program.liveness)
    return any(each is not None and isinstance(each.check, Command) for each in probes)


def _flags(words: Iterable[str]) -> Iterator[tuple[str, str]]:
    """The flags and their values: of ``--name=value`` as of ``-name value``; other words have no name."""
    open_flag = ""
    for word in words:
        if word.startswith("-") and len(word) > 1:
            flag, equals, value = word.lstrip("-").partition("=")
            flag = flag.replace("_", "-").lower()
            open_flag = "" if equals else flag
            yield flag, value
        else:
            yield open_flag, word
            open_flag = ""


def _flag_of(variable: str) -> str:
    """The flag of etcd that a variable stands for."""
    return variable.removeprefix("ETCD_").replace("_", "-").lower()


def _outside(flag: str, value: str, home: str) -> str:
    """Why a value may lead to a file that is not the program's own, a clause; empty if it cannot."""
    ours = re.compile(rf"{re.escape(home)}/({FILES}|{VOLUMES})(?=$|[\s=,:;#@|\"')\]}}/])")
    text = ours.sub(lambda found: SETTINGS if found[1] == FILES else DATA, value)
    text = _NETWORK.sub("", _URL.sub("", text))
    if _UPWARDS.search(value):
        return "leads upwards with .."
    if "\0" in value or "\n" in value:
        return "has a line break or a zero byte"
    if found := _SCHEME.search(text):
        return (
            f"names a {found[0].rstrip(':/').lower()} address, and only those of http and https are possible"
        )
    if flag in _PATHS_OF_URLS:
        return ""
    if _ABSOLUTE.search(text.replace("/dev/null", "")):
        return f"names a path that is below no mount: {_short(value)}"
    return _of_own(flag, text, value)


def _of_own(flag: str, text: str, value: str) -> str:
    """Why a value that has no path of the machine cannot be given all the same, a clause; empty if it can."""
    if flag not in _NO_FILE and _NAMES_FILE.search(flag):
        parts = (part.strip() for part in re.split(r"[,:]", text))
        if any(part not in _OUTPUTS and not part.startswith((SETTINGS, DATA)) for part in parts):
            return f"names a file by a relative path: {_short(value)}"
    if SETTINGS in text and _WRITES.search(flag):
        return "is written to, and names a path below a mount that is read only: an emptyDir would do"
    if DATA in text and _READS.search(flag):
        return "is read, and names a path that the program can write to: a Secret or a ConfigMap would do"
    return ""


def _settings(content: bytes) -> tuple[str, ...]:
    """As ``_judged``, which is asked once of a content, by its digest: contents are Secrets, and large."""
    digest = sha256(content).digest()
    if digest not in _found:
        if len(_found) >= MOST_FOUND:
            del _found[next(iter(_found))]
        _found[digest] = _judged(content)
    return _found[digest]


_found: dict[bytes, tuple[str, ...]] = {}


def _judged(content: bytes) -> tuple[str, ...]:
    """What is wrong with a file that a program reads its settings from; nothing with any other file."""
    readable = content.replace(b"\0", b"")  # YAML may be written in UTF-16
    if _is_pem(content) or not _SECOND_LOOK.search(readable):
        return ()
    if len(content) > LARGEST_SETTINGS:
        return (f"it has {len(content)} bytes, and {LARGEST_SETTINGS} are the most of a file of settings",)
    try:
        found = _of_events(goyaml.events(content))
        return tuple(islice(dict.fromkeys(found), MOST_TOLD))
    except goyaml.Unreadable:
        return ("it cannot be read as YAML, and may name a command",) if _MAY_RUN.search(readable) else ()


def _is_pem(content: bytes) -> bool:
    """Whether each line is in a block of PEM, blank, or a note. ``-----BEGIN a: b`` may begin a map."""
    label = b""
    for line in map(bytes.strip, content.splitlines()):
        bound = _PEM_BOUND.fullmatch(line)
        if bound is None and (_IN_PEM if label else _NOTE).fullmatch(line):
            continue
        if bound is None or (bound[1] == b"END") != bool(label) or label not in (b"", bound[2]):
            return False
        label = b"" if label else bound[2]
    return not label


def _of_events(events: Iterable[yaml.Event]) -> Iterator[str]:
    """Keys that name a command, and values that name a file elsewhere, with their paths.

    No value is made of what is read, and it is not read to the end where it is nested too deeply: the library
    would end this process. An alias could bring under one key what is harmless under another, a tag decides
    which text a key is, and a program in Go takes a few letters beyond ASCII for ASCII ones in keys.
    """
    stack: list[_Open] = []
    for event in events:
        if isinstance(event, yaml.AliasEvent):
            yield "it has an alias, which cannot be judged"
            return
        if isinstance(event, yaml.CollectionEndEvent):
            if not stack.pop().is_key:
                _value_ended(stack)
        elif isinstance(event, yaml.ScalarEvent | yaml.CollectionStartEvent):
            if event.tag is not None:
                yield "it has a tag, which cannot be judged"
                return
            yield from _entered(event, stack)
        if len(stack) > DEEPEST:
            yield "it is nested too deeply"
            return


def _entered(event: yaml.ScalarEvent | yaml.CollectionStartEvent, stack: "list[_Open]") -> Iterator[str]:
    """What is wrong with a key or a value that begins."""
    is_key = bool(stack) and stack[-1].is_map and stack[-1].key is None
    text = event.value if isinstance(event, yaml.ScalarEvent) else None
    path = tuple(each.key for each in stack if each.key)
    if is_key:
        stack[-1].key = text or ""
        if not stack[-1].key.isascii():
            yield "it has a key with letters beyond ASCII, which cannot be judged"
    elif told := _of_value(text, path):
        yield f"{_short('.'.join(path))} {told}"
    if text is None:
        stack.append(_Open(isinstance(event, yaml.MappingStartEvent), is_key))
    elif not is_key:
        _value_ended(stack)


@dataclass(slots=True)
class _Open:
    """A list or map that has not ended. ``key``: of the value that is next; None: a key is next, or none."""

    is_map: bool
    is_key: bool
    key: str | None = None


def _value_ended(stack: list[_Open]) -> None:
    if stack:
        stack[-1].key = None


def _of_value(text: str | None, path: tuple[str, ...]) -> str:
    """What is wrong with a value, a clause. ``text``: of a scalar; None: it is a list or a map."""
    if not path:
        return ""
    if text is None:
        return "names a command to run" if _letters(path[-1]) in _RUNS else ""
    return _elsewhere(text, path)


def _elsewhere(value: str, path: tuple[str, ...]) -> str:
    name = _letters(path[-1])
    if name in _WRITTEN and value not in _OUTPUTS:
        return "names what is written to, which only a flag may"
    if not _FILE_KEY.search(name) or path[-2:-1] == ("conditions",) or "\n" in value:
        return ""
    if _UPWARDS.search(value) or value.startswith(("/", "~")) or _SCHEME.search(value):
        return "names a path outside of the file's own folder"
    return ""


def _letters(key: str) -> str:
    return re.sub(r"[^a-z]", "", key.lower())


def _short(text: Any) -> str:
    told = str(text)
    return repr(told) if len(told) <= TOLD_CHARS else f"{told[:TOLD_CHARS]!r}..."


Fields = Mapping[str, Any]

POD = "spec.template.spec"
POD_FIELDS = {"containers", "volumes", "terminationGracePeriodSeconds"}
OF_NODES = {
    "affinity",
    "automountServiceAccountToken",
    "dnsPolicy",
    "enableServiceLinks",
    "hostNetwork",
    "hostname",
    "imagePullSecrets",
    "nodeName",
    "nodeSelector",
    "preemptionPolicy",
    "priority",
    "priorityClassName",
    "restartPolicy",
    "schedulerName",
    "securityContext",
    "serviceAccount",
    "serviceAccountName",
    "subdomain",
    "tolerations",
    "topologySpreadConstraints",
}
"""Fields of a pod about scheduling, host names and rights, which are ignored for a process."""
CONTAINER_FIELDS = {"args", "command", "env", "name", "ports", "resources", "volumeMounts"}
PROBES = ("startupProbe", "readinessProbe", "livenessProbe")
OF_IMAGES = {
    "image",
    "imagePullPolicy",
    "securityContext",
    "stdin",
    "terminationMessagePath",
    "terminationMessagePolicy",
    "tty",
}
OF_TIME = {"failureThreshold", "initialDelaySeconds", "periodSeconds", "timeoutSeconds"}
CHECKS = {"httpGet": {"path", "port", "scheme"}, "tcpSocket": {"port"}}
"""No command, which would run with our rights, and no other host, which we would ask for a user."""
VOLUME_FIELDS = {
    "configMap": {"defaultMode", "items", "name", "optional"},
    "emptyDir": {"medium", "sizeLimit"},
    "projected": {"defaultMode", "sources"},
    "secret": {"defaultMode", "items", "optional", "secretName"},
}
SOURCES = {"configMap": {"items", "name", "optional"}, "secret": {"items", "name", "optional"}}
ENTRY = {"key", "mode", "path"}
MOUNT = {"mountPath", "name", "readOnly"}
FIELD_REFERENCES = {"metadata.name", "metadata.namespace", "status.podIP"}


LABEL = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?")
MOUNT_PATH = re.compile(r"/[^\0:\n]{1,1000}")
PROBED_PATH = re.compile(r"[!-~]{0,1000}")
MOST = 2**63 - 1
SCHEMES = ("HTTP", "HTTPS")


def unsafe(workload: Fields) -> Iterator[str]:
    """What is wrong with names and paths of which folders and addresses are made, a sentence each.

    No API server has looked at them: the schema of a component lets any patch through.
    """
    pod = workload["spec"]["template"]["spec"]
    container = pod["containers"][0]
    claims = [each["metadata"] for each in workload["spec"].get("volumeClaimTemplates") or ()]
    volumes = pod.get("volumes") or ()
    for path, named in (("spec.volumeClaimTemplates", claims), (f"{POD}.volumes", volumes)):
        for number, each in enumerate(named):
            if not LABEL.fullmatch(each["name"]):
                yield f"{path}[{number}] has the name {_short_field(each['name'])}, which is no DNS label"
    yield from _unsafe_mounts(container, {each["name"] for each in (*claims, *volumes)})
    limits = (container.get("resources") or {}).get("limits") or {}
    for name in ("cpu", "memory"):
        if not _is_amount(limits.get(name, 0)):
            told = f"has to be an amount from 0 to {MOST}"
            yield f"{POD}.containers[0].resources.limits.{name} is {_short_field(limits[name])}, and {told}"
    ports = {each["name"]: each["containerPort"] for each in container.get("ports") or () if "name" in each}
    checks = ((name, check) for name in PROBES for check in CHECKS)
    for name, check in checks:
        if asked := (container.get(name) or {}).get(check):
            yield from _unsafe_probe(asked, ports, f"{POD}.containers[0].{name}.{check}")


def _unsafe_mounts(container: Fields, volumes: Set[str]) -> Iterator[str]:
    for number, mount in enumerate(container.get("volumeMounts") or ()):
        path, at = mount["mountPath"], f"{POD}.containers[0].volumeMounts[{number}]"
        if mount["name"] not in volumes:
            yield f"{at} names the volume {_short_field(mount['name'])}, which there is not"
        parts = path.strip("/").split("/")
        if not MOUNT_PATH.fullmatch(path) or {"", ".", ".."} & set(parts):
            yield f"{at}.mountPath is {_short_field(path)}, and has to be an absolute path without . and .."


def _is_amount(quantity: Any) -> bool:
    """Whether a limit is a number that the kernel and Go could have."""
    try:
        return 0 <= parse(quantity) <= MOST
    except ValueError:
        return False


def _unsafe_probe(asked: Fields, ports: Mapping[str, int], path: str) -> Iterator[str]:
    port = asked.get("port")
    if not isinstance(ports.get(port, port) if isinstance(port, str) else port, int):
        yield f"{path}.port is {_short_field(port)}, and has to be a number, or the name of a port"
    if asked.get("scheme", "HTTP") not in SCHEMES:
        yield f"{path}.scheme has to be HTTP or HTTPS"
    if not PROBED_PATH.fullmatch(asked.get("path", "")):
        yield f"{path}.path has characters that no path of a URL has"


def _short_field(value: Any) -> str:
    told = repr(value)
    return told if len(told) <= TOLD_CHARS else f"{told[:TOLD_CHARS]}..."


def unsupported(workload: Fields) -> list[str]:
    """The fields of a StatefulSet that a process cannot have, by their paths."""
    pod = workload["spec"]["template"]["spec"]
    first, *others = pod["containers"]
    found = list(_beyond(pod, POD_FIELDS | OF_NODES, POD))
    found += [f"{POD}.containers[{number}]" for number, _ in enumerate(others, start=1)]
    found += _of_container(first, f"{POD}.containers[0]")
    for number, volume in enumerate(pod.get("volumes") or ()):
        found += _of_volume(volume, f"{POD}.volumes[{number}]")
    return found


def _of_container(container: Fields, path: str) -> Iterator[str]:
    yield from _beyond(container, CONTAINER_FIELDS | OF_IMAGES | set(PROBES), path)
    context = container.get("securityContext") or {}
    for name in ("privileged", "capabilities"):
        wanted = context.get(name)
        if wanted is True or (isinstance(wanted, Mapping) and wanted.get("add")):
            yield f"{path}.securityContext.{name}"
    for number, entry in enumerate(container.get("env") or ()):
        source = entry.get("valueFrom") or {}
        reference = (source.get("fieldRef") or {}).get("fieldPath", "")
        if source and reference not in FIELD_REFERENCES:
            yield f"{path}.env[{number}].valueFrom"
    for number, mount in enumerate(container.get("volumeMounts") or ()):
        yield from _beyond(mount, MOUNT, f"{path}.volumeMounts[{number}]")
    for name in PROBES:
        if probe := container.get(name):
            yield from _of_probe(probe, f"{path}.{name}")


def _of_probe(probe: Fields, path: str) -> Iterator[str]:
    once = {"successThreshold"} if probe.get("successThreshold") == 1 else set()
    yield from _beyond(probe, OF_TIME | once | CHECKS.keys(), path)
    for name, fields in CHECKS.items():
        yield from _beyond(probe.get(name) or {}, fields, f"{path}.{name}")


def _of_volume(volume: Fields, path: str) -> Iterator[str]:
    yield from _beyond(volume, VOLUME_FIELDS.keys() | {"name"}, path)
    for name, fields in VOLUME_FIELDS.items():
        yield from _beyond(volume.get(name) or {}, fields, f"{path}.{name}")
        yield from _of_items(volume.get(name) or {}, f"{path}.{name}")
    for number, source in enumerate((volume.get("projected") or {}).get("sources") or ()):
        at = f"{path}.projected.sources[{number}]"
        yield from _beyond(source, SOURCES.keys(), at)
        for name, fields in SOURCES.items():
            yield from _beyond(source.get(name) or {}, fields, f"{at}.{name}")
            yield from _of_items(source.get(name) or {}, f"{at}.{name}")


def _of_items(source: Fields, path: str) -> Iterator[str]:
    """Unknown fields of entries, and paths that leave the volume, which a kubelet refuses too."""
    for number, item in enumerate(source.get("items") or ()):
        yield from _beyond(item, ENTRY, f"{path}.items[{number}]")
        parts = str(item.get("path", "")).split("/")
        if {"", ".", ".."} & set(parts):
            yield f"{path}.items[{number}].path"


def _beyond(found: Iterable[str], known: Set[str], path: str) -> Iterator[str]:
    """The paths of the fields that are set and not known."""
    yield from (f"{path}.{name}" for name in found if name not in known)
