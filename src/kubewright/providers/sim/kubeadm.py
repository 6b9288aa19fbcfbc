"""What the commands of a VM ask of kubeadm, read from the files that they name. Pure.

Theory.      A simulated VM has no shell. It knows the commands that make a node: ``kubeadm init`` and
             ``kubeadm join`` with their ``--config``, a script that holds them, and ``echo … > file``, by
             which bootstrap data says that all went well. Every other command succeeds and does nothing. A
             line is carried out up to its first command that fails, as ``&&`` says. The documents are those
             of kubeadm v1beta2 to v1beta4; fields have the same names in all of them but for the flags of the
             kubelet, which are a map in older ones and a list in v1beta4. Read a VM's user data: which files
             are written, and which commands run after that. The two forms that bootstrap providers write.
             cloud-config is YAML below a line ``#cloud-config``; above it a line ``## template: jinja`` may
             stand, and then cloud-init fills in what it knows of the VM before it reads the YAML; statements
             are skipped here. Ignition is JSON: files, and units whose ``ExecStart`` runs one of them. Of
             both, only what bootstraps a node counts: users, disks and clocks are skipped.
Invariants.  ``Unbootable`` says what is missing, and shows neither token nor key. What cannot be read raises
             ``Unbootable`` with one sentence, never a part of the content: it holds keys and tokens.
Source       kubeadm: its documents, commands and defaults (docs/reference/capi-parity.md).
Called by    ``boots``.
"""

import base64
import binascii
import re
import shlex
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote_to_bytes

import msgspec

from kubewright.base.errors import InvalidInput
from kubewright.providers.sim.spec import TaintSpec
from kubewright.wire import gojson, goyaml

CLOUD_CONFIG, IGNITION = "cloud-config", "ignition"
LARGEST = 16 * 1024 * 1024
"""Bytes of all files, unpacked: more is a mistake, or an attack on the process that unpacks them."""

GZIP = 16 + zlib.MAX_WBITS

_JINJA = re.compile(
    r"\{\{\s*(?P<variable>[\w.]+)\s*\}\}"
    r"|\{\{ '(?P<printed>\{[{%#])' \}\}"
    r"|\{%[^%]*+%\}\n?|\{#[^#]*+#\}\n?"
)


class Unbootable(InvalidInput):
    """A VM with this data would not become a node; the message says why."""


@dataclass(frozen=True, slots=True)
class BootData:
    """The files of a VM by path, and the shell lines that run. Its repr shows no contents."""

    files: Mapping[str, str] = field(default_factory=dict, repr=False)
    commands: tuple[str, ...] = ()


def read(data: bytes, data_format: str, variables: Mapping[str, str]) -> BootData:
    """What a VM does with its data: nothing, if they are empty.

    ``variables`` is what cloud-init knows of the VM (``ds.meta_data.…``).

    Raises:
        Unbootable: it is not of that format, or something in it cannot be read.
    """
    readers: Mapping[str, Callable[[], BootData]] = {
        CLOUD_CONFIG: lambda: _cloud_config(_text(data), variables),
        IGNITION: lambda: _ignition(data),
    }
    if (reader := readers.get(data_format)) is None:
        raise Unbootable(f"no image of the simulated cloud reads user data of format {data_format!r}")
    return reader() if data else BootData()


def _cloud_config(text: str, variables: Mapping[str, str]) -> BootData:
    lines = text.splitlines()
    if lines and re.fullmatch(r"##\s*template:\s*jinja\s*", lines[0]):
        text = _JINJA.sub(lambda tag: _filled(tag, variables), "\n".join(lines[1:]))
    if not text.lstrip().startswith("#cloud-config"):
        raise Unbootable("the user data is no cloud-config: it does not begin with #cloud-config")
    try:
        document = goyaml.loads_as_python(text)
    except goyaml.Unreadable as error:
        where = f" in line {error.line}" if error.line else ""
        raise Unbootable(f"the cloud-config is no YAML{where}") from None
    sections = document if isinstance(document, Mapping) else {}
    files, left = dict[str, list[str]](), LARGEST
    for entry in _list(sections, "write_files"):
        if not isinstance(entry, Mapping) or not isinstance(entry.get("path"), str):
            raise Unbootable("an entry of write_files has no path")
        if not entry.get("append"):
            files.pop(entry["path"], None)
        content = _content(entry, left)
        left -= len(content)
        files.setdefault(entry["path"], []).append(content)
    whole = {path: "".join(parts) for path, parts in files.items()}
    return BootData(whole, tuple(_commands(_list(sections, "runcmd"))))


def _filled(found: re.Match[str], variables: Mapping[str, str]) -> str:
    """What stands for a tag: a variable's value, the text of a mark that is printed, of others nothing."""
    if found["variable"]:
        return variables.get(found["variable"], found[0])
    return found["printed"] or ""


def _commands(entries: Iterable[Any]) -> Iterable[str]:
    """The lines of ``runcmd``; a list is one command with its arguments."""
    for entry in entries:
        if isinstance(entry, list):
            yield shlex.join(map(str, entry))
        elif isinstance(entry, str):
            yield entry


def _content(entry: Mapping[str, Any], most: int) -> str:
    content, encoding = entry.get("content") or "", str(entry.get("encoding") or "").lower()
    if not encoding or encoding == "text/plain":
        return str(content)
    raw = content if isinstance(content, bytes) else str(content).encode()
    try:
        if "b64" in encoding or "base64" in encoding:
            raw = base64.b64decode(raw)
        return _text(_unpacked(raw, most) if "gz" in encoding else raw)
    except (binascii.Error, zlib.error):
        raise Unbootable(f"{entry['path']} is not what its encoding {encoding!r} says") from None


def _unpacked(raw: bytes, most: int) -> bytes:
    """What was packed, ``most`` bytes at most.

    Raises:
        Unbootable: it is more.
        zlib.error: it is not packed.
    """
    unpacking = zlib.decompressobj(GZIP)
    found = unpacking.decompress(raw, most + 1)
    if len(found) > most:
        raise Unbootable(f"the files have more than {LARGEST} bytes")
    return found


def _ignition(data: bytes) -> BootData:
    try:
        document = gojson.loads(data)
    except gojson.Unreadable:
        raise Unbootable("the Ignition config is no JSON") from None
    if not isinstance(document, Mapping) or "ignition" not in document:
        raise Unbootable("the user data is no Ignition config: it has no member ignition")
    files: dict[str, str] = {}
    for entry in _maps(document.get("storage"), "files"):
        contents = entry.get("contents")
        source = contents.get("source") if isinstance(contents, Mapping) else ""
        files[str(entry.get("path", ""))] = _data_url(str(source or ""))
    commands: list[str] = []
    for unit in _maps(document.get("systemd"), "units"):
        for line in str(unit.get("contents") or "").splitlines():
            if line.startswith("ExecStart=") and unit.get("enabled", True):
                commands.append(line.removeprefix("ExecStart="))
    return BootData(files, tuple(commands))


def _data_url(source: str) -> str:
    """The content of ``data:[type][;base64],…``; of other addresses nothing: no VM of ours fetches."""
    head, comma, body = source.partition(",")
    if not comma or not head.startswith("data:"):
        return ""
    raw = unquote_to_bytes(body)
    try:
        return _text(base64.b64decode(raw) if head.endswith(";base64") else raw)
    except binascii.Error:
        raise Unbootable("a file of the Ignition config is not what its encoding base64 says") from None


def _maps(sections: Any, name: str) -> list[Mapping[str, Any]]:
    found = _list(sections, name)
    if not all(isinstance(each, Mapping) for each in found):
        raise Unbootable(f"an entry of {name} is no map")
    return found


def _list(sections: Any, name: str) -> list[Any]:
    found = sections.get(name) if isinstance(sections, Mapping) else None
    if found is None:
        return []
    if not isinstance(found, list):
        raise Unbootable(f"{name} is no list")
    return found


def _text(raw: bytes) -> str:
    return raw.decode(errors="replace")


CONTROL_PLANE = "node-role.kubernetes.io/control-plane"
"""Label, and taint, of the nodes of a control plane."""
MOST_LINES, MOST_CHARS = 20_000, 256 * 1024
"""What the commands of a VM and their scripts may have together; a cluster's have dozens of lines."""

PKI = "/etc/kubernetes/pki"
PORT = 6443

_NEXT = re.compile(r"&&|;")
_ECHO = re.compile(r"echo\s(?P<text>.*?)(?P<how>>>?)\s*+(?P<path>\S++)")
LONGEST_ECHO = 4096
"""Characters of a command that is searched for what it writes, and where."""
_TAINTS = (TaintSpec(key=CONTROL_PLANE, effect="NoSchedule"),)


@dataclass(frozen=True, slots=True)
class NodeSetup:
    """How a kubelet registers: its node's name (empty: the host's), labels and taints."""

    name: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[TaintSpec, ...] = ()


@dataclass(frozen=True, slots=True)
class Init:
    """``kubeadm init``: a control plane at ``address`` (host:port). Its repr shows no key and no token.

    ``authority``, ``authority_key``  PEM of the cluster's own CA; empty: kubeadm makes one
    ``tokens``  bootstrap tokens to create, ``id.secret``
    """

    address: str
    node: NodeSetup
    names: tuple[str, ...] = ()
    authority: str = field(default="", repr=False)
    authority_key: str = field(default="", repr=False)
    tokens: tuple[str, ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class Join:
    """``kubeadm join``: what the machine knows of the cluster. Its repr shows no token."""

    address: str
    node: NodeSetup
    token: str = field(default="", repr=False)
    hashes: tuple[str, ...] = ()
    unsafe: bool = False
    control_plane: bool = False


@dataclass(frozen=True, slots=True)
class Write:
    """``echo text > path``."""

    path: str
    text: str
    append: bool = False


Action = Init | Join | Write


def actions(boot: BootData) -> Iterator[Action]:
    """What the commands do, in order.

    Raises:
        Unbootable: a file that kubeadm is given is missing or wrong, or the commands have no end.
    """
    lines = chars = 0
    for line in _lines(boot):
        lines, chars = lines + 1, chars + len(line)
        if lines > MOST_LINES or chars > MOST_CHARS:
            told = f"more than {MOST_LINES} lines, or {MOST_CHARS} characters"
            raise Unbootable(f"its commands and their scripts have {told}")
    for line in boot.commands:
        yield from _line(line, boot, depth=0)


def _lines(boot: BootData) -> Iterator[str]:
    """Each line that is looked at, as often as it is."""
    texts: dict[str, list[str]] = {}
    for line in boot.commands:
        for part in re.split(_NEXT, line):
            yield part
            path = next(iter(part.split()), "").strip("'\"")
            if path in boot.files:
                texts[path] = texts.get(path) or boot.files[path].splitlines()
                yield from texts[path]


def _line(line: str, boot: BootData, depth: int) -> Iterator[Action]:
    for part in re.split(_NEXT, line):
        command = part.strip()
        echo = _ECHO.fullmatch(command) if len(command) <= LONGEST_ECHO else None
        if echo is not None:
            yield Write(echo["path"], echo["text"].strip().strip("'\""), echo["how"] == ">>")
            continue
        words = _words(command)
        if words[:1] and words[0] in boot.files and depth == 0:
            yield from _script(boot.files[words[0]], boot)
        elif words[:2] in (["kubeadm", "init"], ["kubeadm", "join"]):
            yield _kubeadm(words, boot)


def _script(text: str, boot: BootData) -> Iterator[Action]:
    """The actions of a script. It may join phase by phase, and retry: the first join stands for all."""
    joined = False
    for line in text.splitlines():
        for action in _line(line.strip(), boot, depth=1):
            if isinstance(action, Join) and joined:
                continue
            joined = joined or isinstance(action, Join)
            yield action


def _words(command: str) -> list[str]:
    try:
        words = shlex.split(command, comments=True)
    except ValueError:
        return []
    return [word for word in words if "=" not in word or word.startswith("-") or "kubeadm" in word]


def _kubeadm(words: list[str], boot: BootData) -> Init | Join:
    path = _flag(words, "--config")
    if path not in boot.files:
        raise Unbootable(f"kubeadm {words[1]} has no file {path or '--config'}")
    documents = _documents(boot.files[path], path)
    if words[1] == "init":
        return _init(documents, boot)
    return _join(documents)


def _flag(words: list[str], name: str) -> str:
    for number, word in enumerate(words):
        if word == name and number + 1 < len(words):
            return words[number + 1]
        if word.startswith(f"{name}="):
            return word.partition("=")[2]
    return ""


def _documents(text: str, path: str) -> Mapping[str, Mapping[str, Any]]:
    """The documents of a file by kind."""
    try:
        found = goyaml.load_all(text)
    except goyaml.Unreadable:
        raise Unbootable(f"{path} is no YAML") from None
    return {str(each.get("kind")): each for each in found if isinstance(each, Mapping)}


def _init(documents: Mapping[str, Mapping[str, Any]], boot: BootData) -> Init:
    cluster = documents.get("ClusterConfiguration", {})
    first = documents.get("InitConfiguration", {})
    local = _map(first, "localAPIEndpoint")
    address = str(cluster.get("controlPlaneEndpoint") or local.get("advertiseAddress") or "")
    if not address:
        raise Unbootable("kubeadm init is not told where the API server is reached")
    folder = str(cluster.get("certificatesDir") or PKI).rstrip("/")
    names = _map(cluster, "apiServer").get("certSANs") or ()
    listed = [each for each in first.get("bootstrapTokens") or () if isinstance(each, Mapping)]
    return Init(
        _with_port(address, local.get("bindPort") or PORT),
        _node(first, control_plane=True),
        names=tuple(str(name) for name in names),
        authority=boot.files.get(f"{folder}/ca.crt", ""),
        authority_key=boot.files.get(f"{folder}/ca.key", ""),
        tokens=tuple(str(each["token"]) for each in listed if each.get("token")),
    )


def _join(documents: Mapping[str, Mapping[str, Any]]) -> Join:
    document = documents.get("JoinConfiguration")
    if document is None:
        raise Unbootable("kubeadm join has no JoinConfiguration")
    discovery = _map(document, "discovery")
    by_token = _map(discovery, "bootstrapToken")
    address = str(by_token.get("apiServerEndpoint") or "")
    if not address:
        raise Unbootable("kubeadm join is given no bootstrapToken.apiServerEndpoint")
    control_plane = document.get("controlPlane") is not None
    return Join(
        _with_port(address, PORT),
        _node(document, control_plane=control_plane),
        token=str(discovery.get("tlsBootstrapToken") or by_token.get("token") or ""),
        hashes=tuple(str(each) for each in by_token.get("caCertHashes") or ()),
        unsafe=bool(by_token.get("unsafeSkipCAVerification")),
        control_plane=control_plane,
    )


def _node(document: Mapping[str, Any], *, control_plane: bool) -> NodeSetup:
    given = _map(document, "nodeRegistration")
    flags = given.get("kubeletExtraArgs") or {}
    if isinstance(flags, list):
        flags = {str(each.get("name")): each.get("value") for each in flags if isinstance(each, Mapping)}
    labels = _labels(str(flags.get("node-labels") or ""))
    if control_plane:
        labels = {CONTROL_PLANE: "", **labels}
    taints = given.get("taints")
    return NodeSetup(
        name=str(given.get("name") or flags.get("hostname-override") or ""),
        labels=labels,
        taints=(_TAINTS if control_plane else ()) if taints is None else _taints(taints),
    )


def _taints(given: Any) -> tuple[TaintSpec, ...]:
    fields = ("key", "value", "effect")
    found = [each for each in given if isinstance(each, Mapping)]
    plain = [{name: each[name] for name in fields if each.get(name)} for each in found]
    try:
        return msgspec.convert(plain, tuple[TaintSpec, ...])
    except msgspec.ValidationError as error:
        raise Unbootable(f"a taint of the node cannot be read: {error}") from None


def _labels(text: str) -> dict[str, str]:
    pairs = (part.partition("=") for part in text.split(",") if part.strip())
    return {key.strip(): value.strip() for key, _, value in pairs}


def _with_port(address: str, port: object) -> str:
    bare = re.fullmatch(r"(\[[^\]]+\]|[^:]+)(:\d+)?", address)
    if bare is None:
        raise Unbootable(f"{address!r} is no address of an API server")
    return address if bare[2] else f"{address}:{port}"


def _map(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = document.get(name)
    return found if isinstance(found, Mapping) else {}
