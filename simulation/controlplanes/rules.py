"""What must be true of control planes at every step: objects, files, authorities; see ``replication``.

Theory.      The stories have one control plane, and what the machine runs is known at every moment, so a rule
             compares what objects say with what is. A manager sees a change a moment later, and later still
             while faults last: a rule that a manager could break before it has seen it waits for so long.
             Files are real, and what users of the etcd had written is known for every moment: a complete
             snapshot has a file with what was written at a moment since the snapshot was asked for. Each
             certificate that a program presents is verified against what each other one trusts. How an
             authority may change is read from its Secret before and after.
Invariants.  Nothing here disturbs the world. What a user does is no violation.
Called by    ``stories.run``, as ``invariants`` of ``run.simulate``.
"""

import re
from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping
from hashlib import sha256
from itertools import permutations
from typing import Any

from kubewright.api.controlplane.names import KEEP_DATA_ANNOTATION, LOST_DATA_ANNOTATION, Component
from kubewright.controlplanes.hosting.contract import Workload
from kubewright.pki.keys import pems
from kubewright.testing.clocks import BEGIN
from simulation.controlplanes import acts, health
from simulation.controlplanes.acts import ETCD, MANAGER, ORDER, PLANE, SERVER, find, name_of, ready
from simulation.controlplanes.copies import RESTORE, read
from simulation.controlplanes.etcd import Content
from simulation.controlplanes.facts import ASLEEP, AUTHORITIES, FOREIGN, PAUSED, Known, annotated
from simulation.controlplanes.health import content, signed
from simulation.controlplanes.machine import HostMachine
from simulation.controlplanes.pods import ServiceRules
from simulation.controlplanes.replication import EtcdRules, Order
from simulation.controlplanes.setup import COMPONENTS, PLANES, SECRETS, SNAPSHOTS, SnapshotFolder
from simulation.invariants import Invariant, Past
from simulation.invariants.facts import both, deleting
from simulation.journal import (
    Happening,
    HostCall,
    ProgramStep,
    Step,
    Written,
)
from simulation.person import NAMESPACE_NAME

Entries = Mapping[str, bytes]
OLD_DAYS = 8 * 365
"""An authority is replaced unasked when a tenth of its ten years is left."""


class Trust:
    """These rules, of one run."""

    def __init__(self, machine: Callable[[], HostMachine]) -> None:
        self._machine = machine
        self._authorities: dict[str, Entries] = {}

    @property
    def all(self) -> tuple[Invariant, ...]:
        """In the order in which they are judged."""
        return (self.no_authority_is_replaced, self.every_credential_verifies)

    def no_authority_is_replaced(self, step: Step, past: Past) -> str:
        """Authorities, and the key of service accounts, stay the same; or one phase of a rotation is done."""
        old, new = both(step, SECRETS)
        plane = find(past.journal, PLANE)
        if plane is None:
            self._authorities.clear()
        name = str((new or old or {"metadata": {"name": ""}})["metadata"]["name"])
        if new is None or name not in {f"{acts.CLUSTER}{end}" for end in AUTHORITIES}:
            return ""
        now = _entries(new)
        before = self._authorities.setdefault(name, now)
        self._authorities[name] = now
        if before == now:
            return ""
        old_age = (self._machine().now() - BEGIN).days > OLD_DAYS
        asked = bool(((plane or {}).get("spec", {}).get("certificateAuthorities") or {}).get("rotateAfter"))
        if old and (asked or old_age) and _is_phase(before, now):
            return ""
        return f"Secret {name} is {'changed' if old else 'made anew'}"

    def every_credential_verifies(self, step: Step, past: Past) -> str:
        """What each program presents was signed by what those that it talks to trust."""
        secret = both(step, SECRETS)[1]
        kubeconfig = secret is not None and secret["metadata"]["name"] == f"{acts.CLUSTER}-kubeconfig"
        begins = isinstance(step, ProgramStep) and step.happening is Happening.SERVES
        if not (begins or kubeconfig):
            return ""
        return next((f"{told} does not verify" for told, good in self._pairs(past) if not good), "")

    def _pairs(self, past: Past) -> Iterator[tuple[str, bool]]:
        etcds, servers, managers = (self._up(each) for each in (ETCD, SERVER, MANAGER))
        for one, other in permutations(etcds, 2):
            yield "a member of etcd to another", signed(_own(one, "-etcd-peer"), _own(other, "-etcd"))
        for server in servers:
            for etcd in etcds:
                client = _own(server, "-apiserver-etcd-client")
                yield "the API server to etcd", signed(client, _own(etcd, "-etcd"))
                yield "etcd to the API server", signed(_own(etcd, "-etcd-server"), _own(server, "-etcd"))
            for manager in managers:
                yield from _client(health.kubeconfig_of(manager), server, "the controller manager")
            held = past.journal.objects[SECRETS].get(f"{NAMESPACE_NAME}/{acts.CLUSTER}-kubeconfig")
            if held is not None:
                yield from _client(health.value_of(held), server, "a user with the kubeconfig")

    def _up(self, component: Component) -> list[Workload]:
        found = self._machine().instances(NAMESPACE_NAME, name_of(component))
        return [each.workload for each in found if each.up and not each.ending]


def _client(kubeconfig: bytes, server: Workload, who: str) -> Iterator[tuple[str, bool]]:
    """A client with a kubeconfig to a server, and back."""
    found = health.access(kubeconfig)
    if found is not None:
        yield f"{who} to the API server", signed(found.certificate, _own(server, "-ca"))
        yield f"the API server to {who}", signed(_own(server, "-apiserver"), found.ca)


def _own(workload: Workload, suffix: str) -> bytes:
    return content(workload.contents, suffix)


def _entries(secret: Mapping[str, Any]) -> Entries:
    return {key: b64decode(value) for key, value in (secret.get("data") or {}).items()}


def _is_phase(old: Entries, new: Entries) -> bool:
    """Whether this change of an authority is one of the three that a rotation makes."""
    before, after = pems(old["tls.crt"]), pems(new["tls.crt"])
    same_key, begun, goes_on = old["tls.key"] == new["tls.key"], "next.key" in old, "next.key" in new
    if goes_on:
        return same_key and not begun and after == [before[0], new["next.crt"]] and len(before) == 1
    if begun:
        return new["tls.key"] == old["next.key"] and after == [old["next.crt"], before[0]]
    return same_key and len(before) > 1 and after == before[:1]


NAME = (NAMESPACE_NAME, name_of(ETCD))


class Files:
    """These rules, of one run."""

    folder: SnapshotFolder

    def __init__(self, machine: Callable[[], HostMachine]) -> None:
        self._machine = machine
        self._asked: dict[str, int] = {}
        self._contents: list[Content] = []

    @property
    def all(self) -> tuple[Invariant, ...]:
        """In the order in which they are judged."""
        return (
            self.a_snapshot_is_what_it_says,
            self.nothing_runs_while_data_is_replaced,
            self.data_is_never_mixed,
            self.nothing_starts_without_its_data,
        )

    def a_snapshot_is_what_it_says(self, step: Step, past: Past) -> str:
        """The file of a complete snapshot exists, with its hash and what was there since it began."""
        del past
        now = self._machine().content(*NAME)
        if now is not None and (not self._contents or self._contents[-1] != now):
            self._contents.append(now)
        old, new = both(step, SNAPSHOTS)
        if new is None:
            return ""
        name = str(new["metadata"]["uid"])
        first = self._asked.setdefault(name, max(0, len(self._contents) - 1))
        status = new.get("status", {})
        if not status.get("ready") or (old or {}).get("status", {}).get("ready"):
            return ""
        path = self.folder.path / str(status["file"])
        if not path.exists():
            return f"snapshot {new['metadata']['name']} is complete, and its file is not there"
        if (
            sha256(path.read_bytes()).hexdigest() != status["sha256"]
            or read(path) not in self._contents[first:]
        ):
            return f"snapshot {new['metadata']['name']} is complete, and its file has another content"
        return ""

    def nothing_runs_while_data_is_replaced(self, step: Step, past: Past) -> str:
        """No component has an instance when the data of a member is replaced."""
        del past
        if not isinstance(step, HostCall) or step.verb != RESTORE:
            return ""
        runs = [name for (_, name), each in self._machine().workloads.items() if each.programs]
        return f"data is replaced, and there runs {', '.join(runs)}" if runs else ""

    def data_is_never_mixed(self, step: Step, past: Past) -> str:
        """An etcd starts with the data of one cluster: all old, or all restored."""
        del past
        found = self._machine().etcd_of(NAME)
        if not isinstance(step, ProgramStep) or step.happening is not Happening.STARTS or found is None:
            return ""
        there = {each.cluster for each in found[0].data.values() if each.member}
        return f"{step.workload} starts, and etcd has data of {len(there)} clusters" if len(there) > 1 else ""

    def nothing_starts_without_its_data(self, step: Step, past: Past) -> str:
        """A member whose data has vanished starts only after it was replaced, or a user has given it up."""
        if not isinstance(step, ProgramStep) or step.happening is not Happening.STARTS:
            return ""
        name, found = (step.namespace, step.workload), find(past.journal, ETCD) or {"metadata": {}}
        if (name, step.ordinal) not in self._machine().vanished:
            return ""
        annotations = found["metadata"].get("annotations") or {}
        given_up = annotations.get(LOST_DATA_ANNOTATION, "").split(",")
        told = f"{step.workload}-{step.ordinal}"
        hosted = self._machine().workloads.get(name)
        disk = hosted.data.get(step.ordinal) if hosted is not None else None
        replaced = disk is not None and bool(disk.member)
        return "" if replaced or told in given_up else f"{told} starts, and its data has vanished"


LAG_SECONDS = 10.0
"""For so long an object may be ready though its program does not answer: a probe has to fail first."""

REPLACED_SECONDS = 5.0
"""For so long an instance may end that was asked to be replaced before: it starts after that."""
FALLS_ASLEEP_SECONDS = 120.0
"""For so long programs may run after a control plane should sleep: each ends after the one that needs it."""

_OBJECT = re.compile(r"/apis/[^/]+/[^/]+/namespaces/[^/]+/(?P<plural>[^/]+)/(?P<name>[^/]+)")
_RESOURCES: dict[str, str] = {PLANE: PLANES} | {str(each): found for each, found in COMPONENTS.items()}


class Rules:
    """The rules of one run, and what they remember. ``machine`` is set before the run begins."""

    machine: HostMachine

    def __init__(self) -> None:
        self._known = Known()
        self._etcd = EtcdRules(self._known, lambda: self.machine)
        self._trust = Trust(lambda: self.machine)
        self.files = Files(lambda: self.machine)

    @property
    def all(self) -> tuple[Invariant, ...]:
        """In the order in which they are judged; the first and the last one only learn."""
        return (
            self._learn,
            self.nothing_is_ready_that_does_not_answer,
            *self._trust.all,
            *self.files.all,
            *ServiceRules(lambda: self.machine).all,
            self.a_users_secret_stays,
            self.nothing_outlives_its_component,
            self.what_others_manage_is_left_alone,
            self.nothing_of_a_paused_plane_is_touched,
            self.what_sleeps_runs_nothing,
            *Order(self._known, lambda: self.machine).all,
            *self._etcd.all,
            self._remember,
        )

    def _learn(self, _step: Step, past: Past) -> str:
        self._known.learn(past, self.machine)
        return ""

    def _remember(self, step: Step, past: Past) -> str:
        self._etcd.remember(step, past)
        return ""

    def nothing_is_ready_that_does_not_answer(self, step: Step, past: Past) -> str:
        """An object is ready only if it answered its clients less than ``LAG_SECONDS`` ago."""
        for which in ORDER:
            found = find(past.journal, which)
            if not ready(found) or self._known.for_long(which, FOREIGN, past):
                continue
            last = self._known.answered.get(which)
            if last is None:
                return f"{name_of(which)} is ready and has never answered"
            silent = self._known.silence(last, past)
            if silent > LAG_SECONDS and not self._known.for_long(PLANE, PAUSED, past):
                return f"{name_of(which)} is ready and has not answered for {silent:.1f} s"
        return ""

    def a_users_secret_stays(self, step: Step, past: Past) -> str:
        """No controller writes, owns or deletes a Secret that a user made."""
        old, new = both(step, SECRETS)
        if old is None or old["metadata"].get("ownerReferences"):
            return ""
        name = str(old["metadata"]["name"])
        if new is None:
            gone = acts.secret(name) not in past.deleted_by_users
            return f"the user's Secret {name} is deleted" if gone else ""
        same = old.get("data") == new.get("data") and not new["metadata"].get("ownerReferences")
        return "" if same else f"the user's Secret {name} is changed"

    def nothing_outlives_its_component(self, step: Step, past: Past) -> str:
        """A component goes after its programs and their data."""
        del past
        for component, resource in COMPONENTS.items():
            old, new = both(step, resource)
            name = (NAMESPACE_NAME, name_of(component))
            if old is None or new is not None or old["metadata"]["name"] != name_of(component):
                continue
            if name in self.machine.workloads:
                return f"{name_of(component)} is gone, and something of it runs"
            if name in self.machine.retained and not annotated(old, KEEP_DATA_ANNOTATION):
                return f"{name_of(component)} is gone, and its data is there"
        return ""

    def what_others_manage_is_left_alone(self, step: Step, past: Past) -> str:
        """Of a component that another program manages, ours write nothing and run nothing."""
        which = _touched(step)
        if which is None or not self._known.for_long(which, FOREIGN, past):
            return ""
        over = deleting(find(past.journal, which)) or deleting(find(past.journal, PLANE))
        return "" if over else f"{_told(step)}, which another program manages"

    def what_sleeps_runs_nothing(self, step: Step, past: Past) -> str:
        """While a control plane sleeps nothing of it is started, and what ran ends soon."""
        if not self._known.for_long(PLANE, ASLEEP, past):
            return ""
        told = isinstance(step, HostCall) or self._known.waits(PLANE, ASLEEP, past) > REPLACED_SECONDS
        if _is_start(step) and isinstance(step, HostCall | ProgramStep) and told:
            return f"{step.workload} is started, and its control plane sleeps"
        if self._known.for_long(PLANE, PAUSED, past) or self._foreign(past):
            return ""
        late = self._known.waits(PLANE, ASLEEP, past, calm=True) > FALLS_ASLEEP_SECONDS
        runs = [name for (_, name), each in self.machine.workloads.items() if each.programs]
        return f"{', '.join(runs)} runs, and its control plane sleeps" if late and runs else ""

    def _foreign(self, past: Past) -> bool:
        return any(self._known.for_long(each, FOREIGN, past) for each in Component)

    def nothing_of_a_paused_plane_is_touched(self, step: Step, past: Past) -> str:
        """While it is paused, nothing of a control plane is written, nor asked of a host."""
        which = _touched(step)
        if which is None or not self._known.for_long(PLANE, PAUSED, past):
            return ""
        return f"{_told(step)} of a paused control plane"


def _is_start(step: Step) -> bool:
    """Whether an instance starts, or is asked for."""
    if isinstance(step, HostCall):
        return step.verb == "replace" or bool(step.replicas)
    return isinstance(step, ProgramStep) and step.happening is Happening.STARTS


def _touched(step: Step) -> str | None:
    """Which of the four a manager writes, or asks a host to change."""
    if isinstance(step, HostCall):
        return next((each for each in Component if name_of(each) == step.workload), None)
    found = _OBJECT.match(step.path) if isinstance(step, Written) else None
    if found is None:
        return None
    named = ((each, f"{found['plural']}.") for each in ORDER if name_of(each) == found["name"])
    return next((each for each, plural in named if _RESOURCES[each].startswith(plural)), None)


def _told(step: Step) -> str:
    if isinstance(step, HostCall):
        return f"{step.client} asks to {step.verb} {step.workload}"
    return f"{step.client} writes {step.path}" if isinstance(step, Written) else ""
