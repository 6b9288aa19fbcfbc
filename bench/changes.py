"""What a change of one control plane costs: seconds, and those of them in which its API did not answer.

Theory.      A client asks ten times a second, each time over a connection of its own, with the kubeconfig
             that is in the Secret at that moment, as a kubectl would that is started then. A question without
             an answer within two seconds counts as a tenth of a second of silence, and so does one that is
             refused. No question waits for another, so one that hangs makes no silence longer than it is.
Counting.    Authorities are replaced when each of them is another one, alone, and all components run with it;
             a version, when the control plane is ready with it.
Called by    ``bench.planes``.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from math import nan
from typing import Any, NamedTuple

from kubewright.api.conditions import is_condition_true
from kubewright.api.controlplane.names import Component
from kubewright.api.controlplane.reasons import PlaneCondition
from kubewright.api.controlplane.v1alpha4 import NESTED_CONTROL_PLANE
from kubewright.api.core import NAMESPACE, SECRET
from kubewright.base.clock import Clock, rfc3339
from kubewright.controlplanes.certificates.rotation import digest_of
from kubewright.controlplanes.family import KINDS
from kubewright.kube.client import Client
from kubewright.kube.config import from_secret
from kubewright.kube.errors import TransportError
from kubewright.pki.keys import pems
from kubewright.wire.errors import ApiError, NotFound
from kubewright.wire.gvk import Key

STEP_SECONDS, ANSWER_SECONDS = 0.1, 2.0
"""Between two questions; and for how long the client waits for an answer."""
LOOK_SECONDS = 0.25
"""Between two looks whether a change is done."""
TIMEOUT_SECONDS = 300.0

Done = Callable[[], Awaitable[bool]]


class Cost(NamedTuple):
    """Seconds of a change, and those of them without an answer."""

    seconds: float
    silent: float


NOT_MEASURED = Cost(nan, nan)


class Changes:
    """Of one control plane, by a client of the server where it is an object."""

    def __init__(self, client: Client, plane: Key, clock: Clock) -> None:
        self._client, self._plane, self._clock = client, plane, clock
        self._silent = 0.0

    async def rotate(self) -> Cost:
        """Replace all its authorities."""
        before = await self._authorities()
        now = rfc3339(self._clock.now())
        spec = {"certificateAuthorities": {"rotateAfter": now}}
        return await self._change(spec, lambda: self._replaced(before))

    async def upgrade(self, version: str) -> Cost:
        """Give it another version of Kubernetes, which its components follow."""

        async def done() -> bool:
            status = (await self._client.get(NESTED_CONTROL_PLANE, self._plane)).status
            current = is_condition_true(status.conditions, PlaneCondition.UP_TO_DATE)
            return status.ready and current and status.version == f"v{version}"

        return await self._change({"version": version}, done)

    async def answers(self) -> bool:
        """Whether the default namespace can be read with the kubeconfig that is there now."""
        with suppress(ApiError, TransportError):  # of both servers: under load ours may be late too
            secret = await self._client.get(SECRET, self._named("kubeconfig"))
            transport = from_secret(secret.data["value"])
            try:
                inside = Client(transport, self._clock, name="bench", user_agent="bench")
                await inside.get(NAMESPACE, Key("", "default"))
                return True
            finally:
                await transport.close()
        return False

    async def _change(self, spec: Mapping[str, Any], done: Done) -> Cost:
        self._silent, began = 0.0, self._clock.monotonic()
        async with self._asking(), asyncio.timeout(TIMEOUT_SECONDS):
            await self._client.patch(NESTED_CONTROL_PLANE, self._plane, {"spec": spec})
            while not await done():
                await self._clock.sleep(LOOK_SECONDS)
            seconds = self._clock.monotonic() - began
        return Cost(seconds, self._silent)

    @asynccontextmanager
    async def _asking(self) -> AsyncIterator[None]:
        """Ask until the end of the block, and wait for the last answers."""
        async with asyncio.TaskGroup() as questions:
            ticks = questions.create_task(self._tick(questions))
            try:
                yield
            finally:
                ticks.cancel()

    async def _tick(self, questions: asyncio.TaskGroup) -> None:
        while True:
            questions.create_task(self._question())
            await self._clock.sleep(STEP_SECONDS)

    async def _question(self) -> None:
        answered = False
        with suppress(TimeoutError):
            async with asyncio.timeout(ANSWER_SECONDS):
                answered = await self.answers()
        self._silent += 0.0 if answered else STEP_SECONDS

    async def _authorities(self) -> dict[str, bytes]:
        """The certificates of its authorities, by the names of their Secrets."""
        found = {}
        for key in map(self._named, ("ca", Component.ETCD, "proxy")):
            with suppress(NotFound):
                found[key.name] = (await self._client.get(SECRET, key)).data["tls.crt"]
        return found

    async def _replaced(self, before: Mapping[str, bytes]) -> bool:
        now = await self._authorities()
        if any(now[each] == before[each] or len(pems(now[each])) > 1 for each in before):
            return False
        digests = {each: digest_of({"tls.crt": content}) for each, content in now.items()}
        for component, kind in KINDS.items():
            status = (await self._client.get(kind, self._named(component))).status
            known = digests.keys() & status.certificates.keys()
            if not status.ready or any(status.certificates[each] != digests[each] for each in known):
                return False
        return True

    def _named(self, part: str) -> Key:
        return Key(self._plane.namespace, f"{self._plane.name}-{part}")
