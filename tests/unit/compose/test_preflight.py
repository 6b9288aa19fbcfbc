"""The look before the start: each trouble is one sentence with advice, waited for where that helps."""

import asyncio
from dataclasses import replace

import pytest
import structlog

from kubewright.api.catalog import crds
from kubewright.api.core import CRD
from kubewright.apiserver.server import ApiServer
from kubewright.base.errors import InvalidInput
from kubewright.compose.options import Options
from kubewright.compose.preflight import Endpoint, Intent, Preflight, trouble_of
from kubewright.compose.worlds import idle, kinds
from kubewright.kube.client import Client
from kubewright.kube.errors import BadAnswer, ConnectFailed, LoginFailed, TimedOut, Unresolved, Untrusted
from kubewright.kube.transport import InProcess
from kubewright.testing.clocks import LoopClock
from kubewright.wire.errors import Forbidden, NotFound, Unauthorized, Unavailable
from kubewright.wire.http import Response

KINDS = kinds(Options())

URL = "https://here:6443"
CASES = [
    pytest.param(Unauthorized("no"), "does not accept our credentials (401", "--kubeconfig", False, id="401"),
    pytest.param(Forbidden("x may not list y"), "x may not list y", "apply -f deploy/rbac", True, id="403"),
    pytest.param(
        NotFound("machine.sapcloud.io"),
        "does not serve machine.sapcloud.io",
        "kubewright crds |",
        True,
        id="CRDs",
    ),
    pytest.param(
        ConnectFailed("GET /version: Connection refused"),
        "cannot be reached: Conn",
        "is it running",
        True,
        id="refused",
    ),
    pytest.param(
        TimedOut("no answer within 10 s"), "cannot be reached", "is this its address?", True, id="silent"
    ),
    pytest.param(
        Unresolved("unknown"), "the name of https://here:6443 is not known", "unknown", True, id="DNS"
    ),
    pytest.param(
        Untrusted("self-signed certificate"), "self-signed", "certificate-authority-data", False, id="TLS"
    ),
    pytest.param(LoginFailed("plugin x failed"), "no credentials for", "plugin x failed", False, id="plugin"),
    pytest.param(
        BadAnswer("not JSON"), "not JSON", "is it the right address?", False, id="another kind of server"
    ),
    pytest.param(Unavailable("starting"), "is not ready", "starting", True, id="a server that begins"),
]


@pytest.mark.parametrize(("error", "what", "advice", "passes"), CASES)
def test_what_is_wrong_and_what_to_do(error, what, advice, passes):
    trouble = trouble_of(error, URL, "--kubeconfig")
    assert what in trouble.sentence
    assert advice in trouble.sentence
    assert trouble.sentence.count("\n") == 0
    assert trouble.passes is passes


@pytest.fixture
async def server():
    embedded = ApiServer(LoopClock())
    await embedded.start()
    yield embedded
    await embedded.close()


def endpoint(handle):
    return Endpoint(Client(InProcess(handle), LoopClock(), name="control"), URL, "--kubeconfig")


def disguised(server):
    """The same server, saying that it is another one."""

    async def handle(request):
        if request.path == "/version":
            return Response(200, b'{"gitVersion": "v1.36.3"}')
        return await server.handle(request)

    return handle


async def install(server, *apis):
    client = Client(InProcess(server.handle), LoopClock())
    for crd in crds(*(apis or ("machines",))):
        await client.create(CRD, crd)


async def look(handle, intent, *, seconds=1.0, meanwhile=None):
    """Whether all is well within a while, and what was said."""
    one, stop = endpoint(handle), asyncio.Event()
    asyncio.get_running_loop().call_later(seconds, stop.set)
    structlog.reset_defaults()
    with structlog.testing.capture_logs() as lines:
        task = asyncio.create_task(Preflight(one, one, intent).passed(stop))
        if meanwhile is not None:
            await meanwhile()
        return await task, [line["event"] for line in lines]


async def test_a_cluster_without_a_problem_logs_nothing(server):
    await install(server)
    assert await look(disguised(server), Intent(KINDS)) == (True, [])


IDLE = Intent(KINDS, idle=idle(Options()), chosen=("*",))


async def test_worlds_that_are_installed_and_do_not_run_are_named_in_one_line(server):
    await install(server, "clusters", "bootstrap", "machines")
    passed, said = await look(disguised(server), IDLE)
    assert passed
    assert said == [
        f"{URL} has the kinds of clusters, bootstrap, and nothing here works on them; unless another program "
        "does, start with --controllers '*,clusters,bootstrap'"
    ]


async def test_worlds_that_are_not_installed_are_not_mentioned(server):
    await install(server)
    assert await look(disguised(server), IDLE) == (True, [])


async def test_missing_crds_are_logged_once_and_waited_for(server):
    async def apply():
        await asyncio.sleep(30)
        await install(server)

    passed, said = await look(disguised(server), Intent(KINDS), seconds=100, meanwhile=apply)
    assert passed
    assert [line.partition(";")[0] for line in said] == [
        f"{URL} does not serve machine.sapcloud.io",
        "what was missing is there",
    ]


async def test_a_wait_ends_at_a_stop(server):
    passed, said = await look(disguised(server), Intent(KINDS), seconds=3)
    assert not passed
    assert len(said) == 1


async def test_wrong_credentials_end_the_program_at_once():
    async def handle(_request):
        return Response(401, b'{"kind": "Status", "reason": "Unauthorized", "code": 401}')

    with pytest.raises(InvalidInput, match="does not accept our credentials"):
        await look(handle, Intent(KINDS))


async def test_a_server_that_is_no_api_server_ends_the_program_at_once():
    async def handle(_request):
        return Response(404, b"<html>", "text/html")

    with pytest.raises(InvalidInput, match="does not answer as a Kubernetes API server does"):
        await look(handle, Intent(KINDS))


SIMULATED = Intent(KINDS, simulated=True)


async def test_simulated_nodes_do_not_join_a_cluster_that_is_not_ours(server):
    await install(server)
    with pytest.raises(InvalidInput, match="nodes that do not exist into https://here:6443"):
        await look(disguised(server), SIMULATED)


@pytest.mark.parametrize("intent", [replace(SIMULATED, allowed=True), Intent(KINDS, simulated=False)])
async def test_simulated_nodes_join_another_cluster_when_the_user_allows_it(server, intent):
    await install(server)
    assert (await look(disguised(server), intent))[0]


async def test_on_a_server_of_ours_a_warning_says_that_it_runs_these_controllers(server):
    await install(server)
    assert await look(server.handle, SIMULATED) == (
        True,
        [f"{URL} is kubewright up; where it runs these controllers itself, ours stand by"],
    )


async def test_without_an_election_a_server_of_ours_is_refused(server):
    await install(server)
    with pytest.raises(InvalidInput, match="whose own controllers work there"):
        await look(server.handle, replace(SIMULATED, elects=False))
