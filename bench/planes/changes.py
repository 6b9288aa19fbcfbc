"""What a change of one control plane costs: seconds, and those of them in which its API did not answer.

Theory.      A client asks ten times a second, each time over a connection of its own, with the kubeconfig
             that is in the Secret at that moment, as a kubectl would that is started then. A question that is
             not answered within two seconds counts as a tenth of a second of silence, and so does one that is
             refused. No question waits for another, so one that hangs makes no silence longer than it is.
Counting.    Authorities are replaced when each of them is another one, alone, and all components run with it;
             a version, when the control plane is ready with it.
Called by    ``scenario``.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from math import nan
from typing import Any, NamedTuple

from bench.planes.plane import Plane
from bench.planes.waiting import Done, Waiting
from kubewright.api.conditions import is_condition_true
from kubewright.api.controlplane.names import Component, PlaneCondition
from kubewright.api.controlplane.v1alpha4 import NESTED_CONTROL_PLANE
from kubewright.api.core import SECRET
from kubewright.base.clock import rfc3339
from kubewright.controlplanes.family import KINDS
from kubewright.pki.keys import pems
from kubewright.pki.rotation import digest_of
from kubewright.wire.errors import NotFound

STEP_SECONDS, LATE_SECONDS, ANSWER_SECONDS = 0.1, 2.0, 30.0
"""Between two questions; after how long an answer is late; and for how long the client waits for it."""
LOOK_SECONDS = 0.25
"""Between two looks whether a change is done."""


class Cost(NamedTuple):
    """What a change cost; nan: not measured.

    ``seconds``  until it was done
    ``silent``   those of them without an answer in time
    ``failed``   questions that were refused, or got no answer at all
    ``longest``  seconds that the slowest answer took
    """

    seconds: float = nan
    silent: float = nan
    failed: float = nan
    longest: float = nan


NOT_MEASURED = Cost()


class Changes:
    """Of one control plane."""

    def __init__(self, plane: Plane, waiting: Waiting) -> None:
        self._plane, self._waiting = plane, waiting
        self._client, self._clock = plane.client, plane.clock
        self._answers: list[tuple[bool, float]] = []
        """Of each question whether it was answered, and after how many seconds."""

    async def rotate(self) -> Cost:
        """Replace all its authorities.

        Raises:
            Stuck: they were not.
        """
        before = await self._authorities()
        now = rfc3339(self._clock.now())
        spec = {"certificateAuthorities": {"rotateAfter": now}}
        return await self._change(spec, lambda: self._replaced(before), "until all authorities are replaced")

    async def upgrade(self, version: str) -> Cost:
        """Give it another version of Kubernetes, which its components follow.

        Raises:
            Stuck: it did not get it.
        """

        async def done() -> bool:
            status = (await self._client.get(NESTED_CONTROL_PLANE, self._plane.key)).status
            current = is_condition_true(status.conditions, PlaneCondition.UP_TO_DATE)
            return status.ready and current and status.version == f"v{version}"

        return await self._change({"version": version}, done, f"until all of it has version {version}")

    async def _change(self, spec: Mapping[str, Any], done: Done, what: str) -> Cost:
        self._answers, began = [], self._clock.monotonic()
        async with self._asking():
            await self._client.patch(NESTED_CONTROL_PLANE, self._plane.key, {"spec": spec})
            await self._waiting.until(done, f"{self._plane.name}, {what}", step=LOOK_SECONDS)
            seconds = self._clock.monotonic() - began
        late = [not answered or after > LATE_SECONDS for answered, after in self._answers]
        answered = [after for answered, after in self._answers if answered]
        failed = len(self._answers) - len(answered)
        return Cost(seconds, STEP_SECONDS * sum(late), failed, max(answered, default=nan))

    @asynccontextmanager
    async def _asking(self) -> AsyncIterator[None]:
        """Ask until the end of the block, and wait for the last answers."""
        questions: list[asyncio.Task[None]] = []
        ticks = asyncio.create_task(self._tick(questions))
        try:
            yield
        finally:
            ticks.cancel()
            await asyncio.gather(*questions)

    async def _tick(self, questions: list[asyncio.Task[None]]) -> None:
        while True:
            questions.append(asyncio.create_task(self._question()))
            await self._clock.sleep(STEP_SECONDS)

    async def _question(self) -> None:
        answered, began = False, self._clock.monotonic()
        with suppress(TimeoutError):
            async with asyncio.timeout(ANSWER_SECONDS):
                answered = await self._plane.answers()
        self._answers.append((answered, self._clock.monotonic() - began))

    async def _authorities(self) -> dict[str, bytes]:
        """The certificates of its authorities, by the names of their Secrets."""
        found = {}
        for key in map(self._plane.part, ("ca", Component.ETCD, "proxy")):
            with suppress(NotFound):
                found[key.name] = (await self._client.get(SECRET, key)).data["tls.crt"]
        return found

    async def _replaced(self, before: Mapping[str, bytes]) -> bool:
        now = await self._authorities()
        if any(now[each] == before[each] or len(pems(now[each])) > 1 for each in before):
            return False
        digests = {each: digest_of({"tls.crt": content}) for each, content in now.items()}
        for component, kind in KINDS.items():
            status = (await self._client.get(kind, self._plane.part(component))).status
            known = digests.keys() & status.certificates.keys()
            if not status.ready or any(status.certificates[each] != digests[each] for each in known):
                return False
        return True
