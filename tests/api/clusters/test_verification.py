"""What a real TLS server is asked before a kubeconfig gets another authority."""

import asyncio

import pytest

from kubewright.base.clock import Clock, SystemClock
from kubewright.clusters.cluster.look import AT_ONCE, NOT_KNOWN, NOT_TRUSTED, Verifier
from kubewright.kube.access import Access
from kubewright.kube.transport import Transport
from kubewright.pki import tls
from kubewright.pki.certificates import Identity, new_server
from kubewright.pki.clusters import LIFETIME, new_cluster_authority
from kubewright.pki.keys import Algorithm, KeyPair
from kubewright.testing.faults import Script, fault_server
from kubewright.wire.gvk import Key
from kubewright.wire.http import Response

CLOCK = SystemClock()
DEMO = Key("default", "demo")


def authority() -> KeyPair:
    pair = new_cluster_authority(CLOCK.now(), Algorithm.EC)
    return KeyPair(pair.certificate, pair.key)


OURS, OTHER = authority(), authority()


async def asked(url: str, held: KeyPair) -> str:
    """The answer to one question."""
    verifier, heard = Verifier(CLOCK), asyncio.Event()
    verifier.answered = lambda cluster: heard.set()
    assert verifier.problem(DEMO, url, held) is None
    async with asyncio.timeout(30):
        task = asyncio.create_task(verifier.run())
        await heard.wait()
        task.cancel()
        await asyncio.wait([task])
    answer = verifier.problem(DEMO, url, held)
    assert answer is not None
    return answer


@pytest.mark.parametrize(
    ("held", "status", "told"),
    [
        pytest.param(OURS, 200, "", id="it verifies"),
        pytest.param(OURS, 403, "", id="it knows us, and refuses"),
        pytest.param(OURS, 401, NOT_KNOWN, id="it does not know us"),
        pytest.param(
            OURS, 503, "its API server cannot be asked: it answers 503", id="something stands before it"
        ),
        pytest.param(OTHER, 200, NOT_TRUSTED, id="it shows a certificate of another authority"),
        pytest.param(KeyPair(b"x", b"y"), 200, "no certificate can be signed with it", id="it is none"),
    ],
)
async def test_it_is_told_whether_the_api_server_verifies(held: KeyPair, status: int, told: str) -> None:
    identity = new_server(Identity(OURS.certificate, OURS.key), ["127.0.0.1"], CLOCK.now(), LIFETIME)
    context = tls.server()
    identity.load_into(context)

    async def answer(_request: object) -> Response:
        return Response(status)

    async with fault_server(answer, CLOCK, Script(), tls=context) as server:
        found = await asked(server.url, held)
    assert found.startswith(told) if told else found == ""


async def test_an_api_server_that_is_not_there_is_told() -> None:
    found = await asked("https://127.0.0.1:1", OURS)
    assert found.startswith("its API server cannot be asked: ")


async def test_a_fault_of_ours_ends_one_question_and_no_worker() -> None:
    def broken(_access: Access, _clock: Clock) -> Transport:
        raise RuntimeError("a defect")

    verifier, heard = Verifier(CLOCK, broken), asyncio.Queue[Key]()
    verifier.answered = heard.put_nowait
    keys = [Key("default", f"demo{number}") for number in range(AT_ONCE + 1)]
    async with asyncio.timeout(30):
        task = asyncio.create_task(verifier.run())
        for each in keys:
            assert verifier.problem(each, "https://127.0.0.1:1", OURS) is None
            assert await heard.get() == each
        task.cancel()
        await asyncio.wait([task])
    said = "its API server cannot be asked: RuntimeError in Kubewright itself"
    assert {verifier.problem(each, "https://127.0.0.1:1", OURS) for each in keys} == {said}
