"""examples/toy_controller.py runs: on the embedded server, in milliseconds of virtual time."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from examples.toy_controller import GREETING, wire

from kubewright.api.core import CONFIG_MAP, CRD
from kubewright.api.crd import Definition, crd
from kubewright.api.kinds import dynamic
from kubewright.apiserver.server import ApiServer
from kubewright.kube.client import Client
from kubewright.kube.informer import Informers
from kubewright.kube.transport import InProcess
from kubewright.runtime.events import Recorder
from kubewright.runtime.manager import Work
from kubewright.runtime.metrics import Metrics
from kubewright.runtime.sessions.session import Fixed, Session
from kubewright.runtime.world import Environment
from kubewright.testing.clocks import LoopClock
from kubewright.testing.servers import alone
from kubewright.testing.world import running
from kubewright.wire.gvk import Key

KEY = Key("default", "first")


@asynccontextmanager
async def greeting() -> AsyncIterator[Client]:
    """The toy controller at work; what users have to reach its server."""
    clock = LoopClock()
    server = ApiServer(clock)
    await server.start()
    people = Client(InProcess(server.handle), clock, name="people")
    await people.create(dynamic(CRD.resource), crd(Definition(GREETING)))
    client = Client(InProcess(server.handle), clock, name="toy")
    session = Session(client, Informers(client))
    recorder = Recorder(client, clock, "toy", kinds=(GREETING,))
    environment = Environment(session, Fixed(session), lambda: True, recorder, clock, Metrics())
    work = Work([wire(environment)], [session.caches])
    async with running(alone(clock, work, services=[recorder.run]).run):
        yield people
    await server.close()


async def words(people: Client) -> dict[str, str]:
    return dict((await people.get(CONFIG_MAP, KEY)).data)


async def test_a_greeting_gets_its_words_and_says_so_and_they_follow_it() -> None:
    async with greeting() as people:
        body = {"metadata": {"name": KEY.name, "namespace": KEY.namespace}, "spec": {"name": "Ada"}}
        await people.create(GREETING, body)
        await people.clock.sleep(0.1)
        assert await words(people) == {"words": "Hello, Ada!"}
        assert (await people.get(GREETING, KEY)).status.ready
        await people.patch(GREETING, KEY, {"spec": {"name": "Grace"}})
        await people.clock.sleep(0.1)
        assert await words(people) == {"words": "Hello, Grace!"}


async def test_words_that_another_client_deletes_come_back() -> None:
    async with greeting() as people:
        body = {"metadata": {"name": KEY.name, "namespace": KEY.namespace}, "spec": {"name": "Ada"}}
        await people.create(GREETING, body)
        await people.clock.sleep(0.1)
        await people.delete(CONFIG_MAP, KEY)
        await people.clock.sleep(0.1)
        assert await words(people) == {"words": "Hello, Ada!"}
