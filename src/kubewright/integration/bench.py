"""What a case has: clients of both clusters, what is there now, and a wait that says what it waits for.

Theory.      The author of a driver writes a case as a function of a ``Bench``. It has a client of the control
             cluster, which has the machines, and one of the target cluster, which has their nodes; they may
             be of the same server. All that it makes goes by ``make``, so that it is known what may be left
             when the test is ended at once.
Invariants.  Each wait has a deadline, and is told on the terminal while it lasts. A server that does not
             answer a look or a scaling for a moment fails no case: it is asked again until the deadline.
Called by    ``cases``, ``furnish``, ``cleaning``, ``run``, and cases of other authors.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from kubewright.api.core import EVENT, NODE, Event
from kubewright.api.kinds import Kind
from kubewright.api.machine.v1alpha1 import MACHINE, MACHINE_DEPLOYMENT, MACHINE_SET, Machine
from kubewright.base.errors import KubewrightError
from kubewright.integration.classes import LABELS
from kubewright.integration.expectations import Answer, Expectation, View, freezes, reasons
from kubewright.kube.client import Client
from kubewright.kube.errors import TransportError
from kubewright.wire.errors import Forbidden, Unauthorized
from kubewright.wire.gvk import Key

T = TypeVar("T")
MACHINE_NAME, ABSENT_MACHINE = "test-machine", "test-machine-dummy"
DEPLOYMENT_NAME = "test-machine-deployment"

OF_SETS = f"involvedObject.kind={MACHINE_SET.resource.kind}"
"""The events that may tell of a freeze: a namespace may have thousands of others."""

TELL_SECONDS = 10.0
"""From one line about the same wait to the next, while nothing changes."""


class CaseFailed(KubewrightError):
    """A case did not end as it should; the message says what was waited for, and what was there."""


class Skipped(KubewrightError):
    """A case cannot be tried; the message says why."""


@dataclass(frozen=True, slots=True)
class Limits:
    """In seconds: from one look to the next, for each wait of a case, and for the whole clean-up."""

    poll: float = 2.0
    wait: float = 300.0
    clean: float = 900.0


@dataclass(frozen=True, slots=True)
class Settings:
    """What a user says of the clusters. The switches of ``kubewright driver test`` explain each."""

    namespace: str = "default"
    seed: bool = False
    target_cluster: str = ""
    class_v1: Path | None = None
    class_v2: Path | None = None
    class_patch: Path | None = None
    manager_deployment: str = "machine-controller-manager"
    preserve_crds: bool = False
    tags_are_strings: bool = False
    limits: Limits = field(default_factory=Limits)


Tell = Callable[[str], None]
Explain = Callable[[str, str], Awaitable[Sequence[str]]]
"""Why an object is as it is, in clauses, by its kind and name."""


async def unexplained(_kind: str, _name: str) -> Sequence[str]:
    """No reasons beside those that objects say themselves."""
    return ()


@dataclass(slots=True)
class Bench:
    """Both clusters, and what the cases have in common.

    ``initial``  how many nodes there were before the machines that the cases make now
    ``made``     what may be left: objects that this test has made and has not seen go
    """

    control: Client
    target: Client
    settings: Settings
    tell: Tell
    explain: Explain = unexplained
    initial: int = 0
    made: dict[str, None] = field(default_factory=dict)

    def key(self, name: str) -> Key:
        """The place of an object in the namespace of the machines."""
        return Key(self.settings.namespace, name)

    async def make(self, kind: Kind[Any], body: Mapping[str, Any]) -> None:
        """Create an object in the control cluster.

        Raises:
            ApiError, TransportError: the server refused, or did not answer.
        """
        meta = body["metadata"]
        self.made[_called(kind, meta.get("namespace", ""), meta["name"])] = None
        await self.control.create(kind, body)

    def gone(self, kind: Kind[Any], name: str, namespace: str | None = None) -> None:
        """An object that was made is not there any more."""
        place = self.settings.namespace if namespace is None else namespace
        self.made.pop(_called(kind, place, name), None)

    async def scale(self, replicas: int, **template: Any) -> None:
        """Change the replicas of the deployment, and its template, if one is given."""
        spec = {"replicas": replicas, **({"template": template} if template else {})}
        key = self.key(DEPLOYMENT_NAME)
        await self.patiently(lambda: self.control.patch(MACHINE_DEPLOYMENT, key, {"spec": spec}))

    async def patiently(self, call: Callable[[], Awaitable[T]]) -> T:
        """What a call answers that may be repeated, for as long as a wait of a case may take.

        Raises:
            ApiError, TransportError: a server refused, or did not answer in that time.
        """
        clock, limits = self.control.clock, self.settings.limits
        deadline = clock.monotonic() + limits.wait
        while True:
            try:
                return await call()
            except TransportError:
                if clock.monotonic() >= deadline:
                    raise
            await clock.sleep(limits.poll)

    async def look(self) -> View:
        """What is there now. Raises as ``patiently``."""
        return await self.patiently(self._look)

    async def _look(self) -> View:
        namespace = self.settings.namespace
        machines = await self.control.list(MACHINE, namespace)
        deployments = await self.control.list(MACHINE_DEPLOYMENT, namespace)
        sets = await self.control.list(MACHINE_SET, namespace)
        deployment = next((each for each in deployments if each.metadata.name == DEPLOYMENT_NAME), None)
        return View(
            nodes=tuple(await self.target.list(NODE)),
            machines=tuple(machines),
            of_test=tuple(each for each in machines if of_test(each)),
            pool=tuple(each for each in machines if of_test(each, DEPLOYMENT_NAME)),
            sets=tuple(each for each in sets if LABELS.items() <= each.metadata.labels.items()),
            deployment=deployment,
            freezes=freezes(await self.control.list(EVENT, namespace, fields=OF_SETS)),
        )

    async def until(self, what: str, wanted: Expectation, seconds: float | None = None) -> View:
        """Look until it is so, and answer what is there then.

        Args:
            what: what is waited for, for the terminal and the report.
            wanted: whether it is so.
            seconds: how long; None: as the user says.

        Raises:
            CaseFailed: it is not so in time, or never will be.
        """
        clock, limits = self.control.clock, self.settings.limits
        began, within = clock.monotonic(), limits.wait if seconds is None else seconds
        told, told_at = "", began
        while True:
            view, answer = await self._asked(wanted)
            if answer.met and view is not None:
                return view
            took = clock.monotonic() - began
            if answer.hopeless or took >= within:
                raise CaseFailed(await self._unmet(what, answer, took, view))
            if answer.missing != told or clock.monotonic() - told_at >= TELL_SECONDS:
                told, told_at = answer.missing, clock.monotonic()
                why = [each for each in await self.why(view) if each not in told]
                self.tell(f"{took:6.1f} s  waiting for {what}: {'; '.join([told, *why])}")
            await clock.sleep(limits.poll)

    async def _asked(self, wanted: Expectation) -> tuple[View | None, Answer]:
        try:
            view = await self._look()
        except (Forbidden, Unauthorized) as error:
            return None, Answer(str(error), hopeless=True)
        except KubewrightError as error:
            return None, Answer(str(error))
        return view, wanted(view)

    async def _unmet(self, what: str, answer: Answer, took: float, view: View | None) -> str:
        why = "; ".join(await self.why(view, all_of_it=True))
        within = "" if answer.hopeless else f" within {took:.0f} s"
        return f"not{within}: {what}: {answer.missing}" + (f"; {why}" if why else "")

    async def why(self, view: View | None, *, all_of_it: bool = False) -> list[str]:
        """Why it takes long: what objects say, events, and what ``explain`` concludes of a machine that does
        not run. Between two looks only the first reason is told."""
        if view is None:
            return []
        found = reasons(view, await self._events(view) if all_of_it else ())
        if all_of_it:
            slow = next(
                (each for each in view.of_test if each.status.current_status.phase != "Running"), None
            )
            if slow is not None:
                known, told = "; ".join(found), await self.explain("machine", slow.metadata.name)
                found += [f"explain: {each}" for each in told if each not in known]
        return list(dict.fromkeys(found)) if all_of_it else found[:1]

    async def _events(self, view: View) -> list[Event]:
        """The events about what the test made, or none where they cannot be read."""
        mine = {DEPLOYMENT_NAME, MACHINE_NAME}
        mine |= {each.metadata.name for each in (*view.sets, *view.of_test)}
        try:
            found = await self.control.list(EVENT, self.settings.namespace)
        except KubewrightError:
            return []
        return [each for each in found if each.involved_object.name in mine]


def of_test(machine: Machine, name: str = MACHINE_NAME) -> bool:
    """Whether the test made this machine: by its label, and by how its name begins."""
    meta = machine.metadata
    return LABELS.items() <= meta.labels.items() and meta.name.startswith(name)


def _called(kind: Kind[Any], namespace: str, name: str) -> str:
    resource = kind.resource
    return f"{resource.kind} {namespace}/{name}" if namespace else f"{resource.kind} {name}"
