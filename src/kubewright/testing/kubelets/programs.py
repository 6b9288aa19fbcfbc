"""From a pod to the program that stands for its container, or for all of them in turn. Pure.

Theory.      A container has a file system of its own, a process of this machine has not. So what is mounted
             lies in folders, and every argument and variable that names a path of the container is rewritten
             to name the folder. What is above a mount (``/etc/kubernetes/pki``) is a folder too.
Called by    ``kubelet``.
"""

import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from kubewright.base.errors import InvalidInput
from kubewright.controlplanes.templates.render import expand
from kubewright.processes.program import Command, HttpGet, Probe, Program, TcpConnect

Json = Mapping[str, Any]
Contents = Callable[[str, str], Mapping[str, bytes]]
"""What is in a Secret or a ConfigMap, by ``secret`` or ``configMap`` and its name."""

SEQUENCE = str(Path(__file__).with_name("sequence.py"))


@dataclass(frozen=True, slots=True)
class Ground:
    """What a pod finds where it runs.

    ``folder``   that of its program, whose ``files/`` stands for the container's file system
    ``claims``   the folder of a claim, by the claim's name
    ``address``  the pod's own
    ``paths``    of programs, by the names that a command has
    """

    folder: Path
    claims: Mapping[str, Path]
    address: str
    paths: Mapping[str, str]


def program_of(pod: Json, name: str, ground: Ground, contents: Contents) -> Program:
    """The program of a pod.

    Raises:
        InvalidInput: the pod has something that this double does not know.
    """
    (container,) = pod["spec"]["containers"]
    return _program(pod, container, name, ground, contents)


def sequence_of(pod: Json, name: str, ground: Ground, contents: Contents) -> Program:
    """The program of a pod that is done once: it runs all its containers, one after another.

    Raises:
        InvalidInput: the pod has something that this double does not know.
    """
    all_of_it = [*pod["spec"].get("initContainers", ()), *pod["spec"]["containers"]]
    parts = {each["name"]: _program(pod, each, name, ground, contents) for each in all_of_it}
    steps = [{"name": each, "argv": part.argv, "env": part.environment} for each, part in parts.items()]
    argv = (sys.executable, "-I", "-S", SEQUENCE, str(outcome_of(ground.folder)), json.dumps(steps))
    files = {path: data for part in parts.values() for path, data in part.files.items()}
    return Program(name, argv, {}, files, grace=float(pod["spec"].get("terminationGracePeriodSeconds", 30)))


def outcome_of(folder: Path) -> Path:
    """Where the program of a pod that is done once says how far it is."""
    return folder / "outcome"


def _program(pod: Json, container: Json, name: str, ground: Ground, contents: Contents) -> Program:
    volumes = {each["name"]: each for each in pod["spec"].get("volumes", ())}
    folders: dict[str, Path] = {}
    files: dict[str, bytes] = {}
    for mount in container.get("volumeMounts", ()):
        volume, path = volumes[mount["name"]], mount["mountPath"]
        if "persistentVolumeClaim" in volume:
            folders[path] = ground.claims[volume["persistentVolumeClaim"]["claimName"]]
            continue
        inside = PurePosixPath(path.lstrip("/"))
        files |= {str(inside / each): data for each, data in _files(volume, contents)}
        for each in (inside, *inside.parents):
            if len(each.parts) > 1:
                folders[f"/{each}"] = ground.folder / "files" / each
    here = _Rewriting(folders)
    environment = _environment(pod, container, ground)
    argv = [here(expand(each, environment)) for each in _command(container)]
    argv[0] = ground.paths.get(argv[0], argv[0])
    return Program(
        name,
        tuple(argv),
        {name: here(value) for name, value in environment.items()},
        files,
        startup=_probe(container, "startupProbe", ground, here),
        readiness=_probe(container, "readinessProbe", ground, here),
        liveness=_probe(container, "livenessProbe", ground, here),
        grace=float(pod["spec"].get("terminationGracePeriodSeconds", 30)),
    )


class _Rewriting:
    """Writes the folders of this machine for those of a container."""

    def __init__(self, folders: Mapping[str, Path]) -> None:
        self._folders = folders
        longest_first = sorted(folders, key=len, reverse=True)
        known = "|".join(map(re.escape, longest_first)) or "(?!)"
        self._known = re.compile(f"(?<![A-Za-z0-9._/-])({known})(?![A-Za-z0-9._-])")

    def __call__(self, text: str) -> str:
        return self._known.sub(lambda found: str(self._folders[found[1]]), text)


def _command(container: Json) -> list[str]:
    """A container without a command runs what its image says: ``Ground.paths`` has it by the image's name."""
    return [*container.get("command", (container["image"],)), *container.get("args", ())]


def _environment(pod: Json, container: Json, ground: Ground) -> dict[str, str]:
    """The variables of a container: each may use those before it."""
    known = {
        "metadata.name": pod["metadata"]["name"],
        "metadata.namespace": pod["metadata"]["namespace"],
        "status.podIP": ground.address,
    }
    found: dict[str, str] = {}
    for each in container.get("env", ()):
        if (source := each.get("valueFrom")) is None:
            found[each["name"]] = expand(each.get("value", ""), found)
        elif (path := source.get("fieldRef", {}).get("fieldPath")) in known:
            found[each["name"]] = known[path]
        else:
            raise InvalidInput(f"a variable is taken from what this kubelet does not know: {source}")
    return found


def _files(volume: Json, contents: Contents) -> Iterator[tuple[str, bytes]]:
    """The files of a volume, by their paths in it."""
    if "secret" in volume:
        yield from _entries("secret", volume["secret"]["secretName"], volume["secret"], contents)
    elif "configMap" in volume:
        yield from _entries("configMap", volume["configMap"]["name"], volume["configMap"], contents)
    elif "projected" in volume:
        for source in volume["projected"]["sources"]:
            ((kind, chosen),) = source.items()
            yield from _entries(kind, chosen["name"], chosen, contents)
    else:
        raise InvalidInput(f"a volume is of a kind that this kubelet does not know: {volume}")


def _entries(kind: str, name: str, chosen: Json, contents: Contents) -> Iterator[tuple[str, bytes]]:
    found = contents(kind, name)
    if "items" not in chosen:
        yield from found.items()
        return
    for item in chosen["items"]:
        if item["key"] not in found:
            raise InvalidInput(f"references non-existent key: {item['key']} of {name}")
        yield item["path"], found[item["key"]]


def _probe(container: Json, name: str, ground: Ground, here: _Rewriting) -> Probe | None:
    if (asked := container.get(name)) is None:
        return None
    return Probe(
        _check(asked, container, ground.address, here),
        period=float(asked.get("periodSeconds", 10)),
        timeout=float(asked.get("timeoutSeconds", 1)),
        failures=asked.get("failureThreshold", 3),
        delay=float(asked.get("initialDelaySeconds", 0)),
    )


def _check(asked: Json, container: Json, address: str, here: _Rewriting) -> HttpGet | TcpConnect | Command:
    if "exec" in asked:
        return Command(tuple(here(each) for each in asked["exec"]["command"]))
    ports = {each.get("name"): each["containerPort"] for each in container.get("ports", ())}
    if "tcpSocket" in asked:
        port = asked["tcpSocket"]["port"]
        return TcpConnect(address, ports.get(port, port))
    if "httpGet" not in asked:
        raise InvalidInput(f"a probe is of a kind that this kubelet does not know: {asked}")
    get = asked["httpGet"]
    scheme, port = get.get("scheme", "HTTP").lower(), ports.get(get["port"], get["port"])
    return HttpGet(f"{scheme}://{get.get('host', address)}:{port}{get.get('path', '/')}")
