"""From a workload to the program of each instance, and its volumes as folders and files. Pure.

Theory.      It reads the first container of the pod template as a kubelet would: arguments with their
             variables, environment, files, probes, limits. The limit of memory also sets that of the Go
             runtime, a tenth lower, so that it collects garbage before it is killed; the limit of processors
             sets the number of its threads.
             The folder of an instance stands in for the file system of a container. What a container would
             find at ``/etc/kubernetes/pki/ca`` is at ``files/etc/kubernetes/pki/ca``; a writable volume is at
             ``volumes/<name>`` and is kept. An argument that names a path below a mount is changed to the
             path that the process has, so the same patch works for pods and processes.
Invariants.  The content of Secrets is in files only. A probe asks the instance itself and nothing else, and
             no command is run for one. A process gets the variables of its host and those that ``allowed``
             lists; the others are only filled in where an argument names them. The settings by which the
             supervisor recognizes a changed program are the fingerprint of the workload, the number of
             replacements and the version: nothing else replaces a process, so a changed variable of the
             environment, or another user, takes effect at the next start.
             Names and paths were judged before (``allowed.unsafe``). Every path that a program is given is
             absolute. A process of another user cannot enter the folders above its own, so it is given paths
             below ``/proc/self/cwd``: the folder of the instance is its working folder.
Called by    ``host``; ``store`` and ``restoring`` for names.
"""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from kubewright.base.errors import InvalidInput
from kubewright.controlplanes.hosting.contract import Contents, Workload, WorkloadIdentity
from kubewright.controlplanes.hosting.processes.allowed import VARIABLE, VOLUMES, WORKING
from kubewright.controlplanes.members import VARIABLES
from kubewright.controlplanes.templates.render import DATA_FOLDER, FILES_FOLDER, LONGEST, PKI_FOLDER, expand
from kubewright.processes.program import FILES, GRACE, HttpGet, Probe, Program, TcpConnect
from kubewright.wire.quantity import parse

GO_MEMORY_SHARE = 0.9
"""The share of the limit of memory that becomes ``GOMEMLIMIT``."""
OOM_SCORE = 300
"""So that the kernel, short of memory, kills a component before this program, which starts it again."""
BALANCER = -1
"""The ordinal under which the balancer of a workload is kept (``balancing``)."""
BALANCER_NAME = "balancer"
SEARCH_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""``PATH`` of a component, whatever that of Kubewright is."""
OWN = frozenset(
    {"INSTANCE", "NAMESPACE", "HOST", "ADDRESS", "ADVERTISE_ADDRESS", "ENDPOINT_RECONCILER"}
    | {"PKI_DIR", "FILES_DIR", "DATA_DIR", *VARIABLES}
)
"""The variables that every instance may have."""
MOST_WORDS = 1024 * 1024
"""Bytes of all arguments and variables of a program; Linux takes 2 MiB with the usual limit of the stack."""


DATA = "data"
"""The volume for ``$(DATA_DIR)`` where the manifest mounts none there."""

_PATH = re.compile(r"(^|[=,])(/[^=,]*)")

Fields = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Folders:
    """Where the paths of a container are in the folder of an instance.

    ``mounts``   by path of a mount in the container: the folder below ``root``
    ``data``     folders that the program may write to
    ``root``     the path of the instance's folder that its program can use
    """

    mounts: Mapping[str, str]
    data: tuple[str, ...]
    root: str

    def of(self, path: str) -> str:
        """The path that the process has for a path of the container."""
        return self._below_mount(path) or f"{self.root}/{FILES}{path}"

    def argument(self, text: str) -> str:
        """An argument, ``--flag=/path`` or ``/path`` or several, with the paths that the process has."""
        return _PATH.sub(lambda found: found[1] + (self._below_mount(found[2]) or found[2]), text)

    def _below_mount(self, path: str) -> str:
        fits = [mount for mount in self.mounts if path == mount or path.startswith(f"{mount}/")]
        best = max(fits, key=len, default="")
        return f"{self.root}/{self.mounts[best]}{path.removeprefix(best)}" if best else ""


def folders(workload: Fields, root: str) -> Folders:
    """The folders of an instance of this StatefulSet. ``root``: see ``Folders``."""
    pod = workload["spec"]["template"]["spec"]
    claimed = {each["metadata"]["name"] for each in workload["spec"].get("volumeClaimTemplates") or ()}
    written = claimed | {each["name"] for each in pod.get("volumes") or () if "emptyDir" in each}
    mounts = {}
    for mount in pod["containers"][0].get("volumeMounts") or ():
        name, path = mount["name"], "/" + mount["mountPath"].strip("/")
        mounts[path] = f"{VOLUMES}/{name}" if name in written else f"{FILES}{path}"
    data = {folder for folder in mounts.values() if folder.startswith(f"{VOLUMES}/")}
    if not Folders(mounts, (), "").of(DATA_FOLDER).startswith(f"/{VOLUMES}/"):
        mounts[DATA_FOLDER] = f"{VOLUMES}/{DATA}"
        data.add(f"{VOLUMES}/{DATA}")
    return Folders(mounts, tuple(sorted(data)), root)


def files(workload: Workload) -> dict[str, bytes]:
    """The files of an instance by their paths below ``files/``.

    Raises:
        InvalidInput: a Secret, a ConfigMap or a key that a volume names is not there.
    """
    pod = workload.rendered.workload["spec"]["template"]["spec"]
    volumes = {each["name"]: each for each in pod.get("volumes") or ()}
    found = {}
    for mount in pod["containers"][0].get("volumeMounts") or ():
        for path, content in _of_volume(volumes.get(mount["name"], {}), workload):
            found[f"{mount['mountPath'].strip('/')}/{path}"] = content
    return found


def _of_volume(volume: Fields, workload: Workload) -> Iterator[tuple[str, bytes]]:
    for part in (volume, *((volume.get("projected") or {}).get("sources") or ())):
        if secret := part.get("secret"):
            yield from _entries(secret.get("secretName") or secret["name"], secret, workload.contents)
        if config := part.get("configMap"):
            yield from _entries(config["name"], config, workload.config)


def _entries(name: str, source: Fields, contents: Mapping[str, Contents]) -> Iterator[tuple[str, bytes]]:
    """The paths and the content of one Secret or ConfigMap: the entries that are named, or all."""
    if name not in contents:
        if source.get("optional"):
            return
        raise InvalidInput(f"{name}, which a volume names, is not there")
    entries = contents[name]
    if not (items := source.get("items")):
        yield from entries.items()
        return
    for item in items:
        if item["key"] in entries:
            yield item["path"], entries[item["key"]]
        elif not source.get("optional"):
            raise InvalidInput(f"{name}, which a volume names, has no key {item['key']}")


@dataclass(frozen=True, slots=True)
class Site:
    """Where an instance runs, and as whom.

    ``binary``     the path of its program
    ``address``    its own loopback address
    ``programs``   the folder above the folders of all instances
    ``user``       uid and gid; None: as this program
    """

    binary: str
    address: str
    programs: str
    user: tuple[int, int] | None = None


class ProgramSettings(NamedTuple):
    """The settings of a program, in parts. ``number``: how often the instance was replaced."""

    fingerprint: str = ""
    number: int = 0
    version: str = ""

    @classmethod
    def read(cls, settings: str) -> "ProgramSettings":
        """From the text that ``str`` gives; empty for a text of another form."""
        fingerprint, _, rest = settings.partition(".")
        number, _, version = rest.partition(".")
        return cls(fingerprint, int(number), version) if number.isdigit() else cls()

    def __str__(self) -> str:
        return f"{self.fingerprint}.{self.number}.{self.version}"


Name = tuple[str, str, str]
"""The key of a workload: namespace, cluster and component."""


def name_of(identity: WorkloadIdentity) -> Name:
    """The key of a workload."""
    return identity.namespace, identity.cluster, identity.component


def program_name(name: Name, ordinal: int) -> str:
    """The name of the program of an instance, or of the balancer."""
    return f"{'/'.join(name)}-{BALANCER_NAME if ordinal == BALANCER else ordinal}"


def instance_of(program: str) -> tuple[Name, int]:
    """The workload and the ordinal of a program, by its name."""
    workload, _, ordinal = program.rpartition("-")
    namespace, _, rest = workload.partition("/")
    cluster, _, component = rest.partition("/")
    number = BALANCER if ordinal == BALANCER_NAME else int(ordinal) if ordinal.isdigit() else 0
    return (namespace, cluster, component), number


def command_of(workload: Workload) -> str:
    """The name of the program that the manifest wants."""
    return str((_container(workload).get("command") or [""])[0])


def program_of(workload: Workload, ordinal: int, site: Site, *, number: int = 0) -> Program:
    """The program of an instance.

    Raises:
        InvalidInput: a Secret, a ConfigMap or a key that a volume names is not there, or its arguments and
            variables are longer than Linux takes them.
    """
    identity, manifest, container = workload.identity, workload.rendered.workload, _container(workload)
    name = program_name(name_of(identity), ordinal)
    where = folders(manifest, WORKING if site.user else f"{site.programs}/{name}")
    variables = _variables(workload, ordinal, site, where)
    room = _Room()
    theirs = dict(_environment(container, variables, workload, room))
    environment = {**variables, **theirs}
    given = {name: value for name, value in theirs.items() if name in variables or VARIABLE.fullmatch(name)}
    words = [*(container.get("command") or ()), *(container.get("args") or ())]
    arguments = [room.kept(where.argument(expand(str(word), environment))) for word in words[1:]]
    limits = (container.get("resources") or {}).get("limits") or {}
    startup, readiness, liveness = (
        _probe(container, kind, site.address) for kind in ("startupProbe", "readinessProbe", "livenessProbe")
    )
    return Program(
        name=name,
        argv=(site.binary, *arguments),
        environment={"PATH": SEARCH_PATH, **dict(_for_go(limits)), **variables, **given},
        files=files(workload),
        data=where.data,
        startup=startup,
        readiness=readiness,
        liveness=liveness,
        grace=float(manifest["spec"]["template"]["spec"].get("terminationGracePeriodSeconds", GRACE)),
        user=site.user,
        memory=int(parse(limits["memory"])) if "memory" in limits else 0,
        oom_score=OOM_SCORE,
        settings=str(ProgramSettings(workload.fingerprint, number, workload.version)),
    )


def with_allowed_variables(program: Program) -> Program:
    """A program that an earlier version kept, without variables that no process gets today."""
    known = {
        name: value for name, value in program.environment.items() if name in OWN or VARIABLE.fullmatch(name)
    }
    return replace(program, environment={**known, "PATH": SEARCH_PATH})


def _container(workload: Workload) -> Fields:
    found: Fields = workload.rendered.workload["spec"]["template"]["spec"]["containers"][0]
    return found


def _variables(workload: Workload, ordinal: int, site: Site, where: Folders) -> dict[str, str]:
    """The variables of every instance. An API server announces no endpoint, because no node would use it."""
    return {
        "INSTANCE": workload.identity.instance(ordinal),
        "NAMESPACE": workload.identity.namespace,
        "HOST": site.address,
        "ADDRESS": site.address,
        "ADVERTISE_ADDRESS": site.address,
        "ENDPOINT_RECONCILER": "none",
        "PKI_DIR": where.of(PKI_FOLDER),
        "FILES_DIR": where.of(FILES_FOLDER),
        "DATA_DIR": where.of(DATA_FOLDER),
        **workload.environment,
    }


class _Room:
    """How much of the arguments and variables of a program is left: Linux starts none with more."""

    def __init__(self) -> None:
        self._left = MOST_WORDS

    def kept(self, text: str) -> str:
        """Give a text its room. Raises InvalidInput if there is none."""
        size = len(text.encode())
        self._left -= size
        if size > LONGEST or self._left < 0:
            told = f"one of them at most {LONGEST} bytes, and all {MOST_WORDS}"
            raise InvalidInput(f"args and env are too long with their variables filled in: {told}")
        return text


def _environment(
    container: Fields, variables: Mapping[str, str], workload: Workload, room: _Room
) -> Iterator[tuple[str, str]]:
    """The container's own variables, in order: one may refer to those before it."""
    known = dict(variables)
    fields = {
        "metadata.name": variables["INSTANCE"],
        "metadata.namespace": workload.identity.namespace,
        "status.podIP": variables["ADDRESS"],
    }
    for entry in container.get("env") or ():
        if reference := (entry.get("valueFrom") or {}).get("fieldRef"):
            known[entry["name"]] = fields.get(reference.get("fieldPath", ""), "")
        else:
            known[entry["name"]] = expand(str(entry.get("value", "")), known)
        room.kept(f"{entry['name']}={known[entry['name']]}")
        yield entry["name"], known[entry["name"]]


def _for_go(limits: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The limits as variables that the Go runtime reads."""
    if "memory" in limits:
        yield "GOMEMLIMIT", str(int(float(parse(limits["memory"])) * GO_MEMORY_SHARE))
    if "cpu" in limits:
        yield "GOMAXPROCS", str(max(1, math.ceil(parse(limits["cpu"]))))


def _probe(container: Fields, kind: str, address: str) -> Probe | None:
    probe = container.get(kind)
    if not probe:
        return None
    ports = {each["name"]: each["containerPort"] for each in container.get("ports") or () if "name" in each}
    check: HttpGet | TcpConnect
    if asked := probe.get("httpGet"):
        path = "/" + str(asked.get("path", "")).lstrip("/")
        port = int(ports.get(asked["port"], asked["port"]))
        check = HttpGet(f"{str(asked.get('scheme', 'HTTP')).lower()}://{address}:{port}{path}")
    elif asked := probe.get("tcpSocket"):
        check = TcpConnect(address, int(ports.get(asked["port"], asked["port"])))
    else:
        return None
    return Probe(
        check,
        period=float(probe.get("periodSeconds") or 10),
        timeout=float(probe.get("timeoutSeconds") or 1),
        failures=int(probe.get("failureThreshold") or 3),
        delay=float(probe.get("initialDelaySeconds") or 0),
    )
