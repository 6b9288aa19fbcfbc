"""What the commands of a VM ask of kubeadm, read from the files that they name. Pure.

Theory.      A simulated VM has no shell. It knows the commands that make a node: ``kubeadm init`` and
             ``kubeadm join`` with their ``--config``, a script that holds them, and ``echo … > file``, by
             which bootstrap data says that all went well. Every other command succeeds and does nothing.
             A line is carried out up to its first command that fails, as ``&&`` says.
             The documents are those of kubeadm v1beta2 to v1beta4; fields have the same names in all of them
             but for the flags of the kubelet, which are a map in older ones and a list in v1beta4.
Invariants.  ``Unbootable`` says what is missing, and shows neither token nor key.
Source       capi.md §9.4 (discovery), §9.5 (documents), §9.6 (commands); kubeadm's defaults.
Called by    ``boots``.
"""

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from kubewright.providers.sim.boot.userdata import BootData, Unbootable
from kubewright.providers.sim.spec import TaintSpec
from kubewright.wire import goyaml

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
