"""The log hides secrets; the endpoints answer."""

import asyncio
import io
import json
import socket
from contextlib import suppress

import pytest
import structlog
from tests.unit.runtime.conftest import serving

from kubewright.base.errors import InvalidInput
from kubewright.runtime.accepting import MOST_CONNECTIONS
from kubewright.runtime.health import HealthServer
from kubewright.runtime.log import configure
from kubewright.runtime.metrics import Metrics
from kubewright.runtime.records import Answer
from kubewright.testing.clocks import LoopClock


@pytest.fixture
def lines():
    return io.StringIO()


async def test_a_line_has_time_level_and_context(lines):
    configure(LoopClock(), stream=lines)
    with structlog.contextvars.bound_contextvars(key="ns/m1"):
        structlog.get_logger().info("made", seconds=3)
    structlog.get_logger().debug("not this")
    (line,) = lines.getvalue().splitlines()
    assert line.split() == ["2030-01-01T00:00:00.000+00:00", "[info", "]", "made", "key=ns/m1", "seconds=3"]


async def test_secrets_never_reach_the_log(lines):
    configure(LoopClock(), stream=lines)
    structlog.get_logger().info(
        "x",
        password="p",
        userData="u",
        bearer_token="t",
        data=b"b",
        nested={"kubeconfig": "k", "ok": [1, b"c"], "client-key-data": "d", "parts": {b"e"}},
    )
    _, told = lines.getvalue().split(" x ")
    assert told.strip() == (
        "bearer_token=(hidden) data=(hidden) nested={'kubeconfig': '(hidden)', 'ok': [1, '(hidden)'], "
        "'client-key-data': '(hidden)', 'parts': ['(hidden)']} password=(hidden) userData=(hidden)"
    )


async def test_a_traceback_shows_code_but_no_values(lines):
    configure(LoopClock(), stream=lines)
    hidden = "".join(reversed("terces"))
    try:
        raise ValueError(len(hidden))
    except ValueError:
        structlog.get_logger().exception("defect")
    assert "ValueError: 6" in lines.getvalue()
    assert "secret" not in lines.getvalue()


def test_an_unknown_level_is_refused():
    with pytest.raises(ValueError, match="no log level"):
        configure(LoopClock(), level="loud")


@pytest.mark.looptime(False)
async def test_endpoints():
    trouble = {"caches": "waiting for caches"}
    async with serving(
        ready={"caches": lambda: trouble["caches"]}, metrics=Metrics(), status=lambda: {"phase": "x"}
    ) as session:
        assert await page(session, "/healthz") == (200, "OK")
        assert await page(session, "/readyz") == (503, "caches: waiting for caches")
        trouble["caches"] = ""
        assert await page(session, "/readyz") == (200, "ok")
        assert "workqueue_depth" in (await page(session, "/metrics"))[1]
        assert json.loads((await page(session, "/statusz"))[1]) == {"phase": "x"}


@pytest.mark.looptime(False)
async def test_a_taken_port_is_one_plain_sentence():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(InvalidInput, match=r"cannot serve health on 127\.0\.0\.1"):
            await HealthServer(port=taken.getsockname()[1]).run()


@pytest.mark.looptime(False)
async def test_without_a_host_every_address_answers():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    async with serving(host="", port=port) as session:
        assert await page(session, "/healthz") == (200, "OK")
        assert await page(session, f"http://127.0.0.2:{port}/healthz") == (200, "OK")


@pytest.mark.looptime(False)
async def test_silent_connections_have_a_bound_and_keep_no_probe_out():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    async with serving(port=port) as session, asyncio.timeout(10):
        silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(MOST_CONNECTIONS + 1)]
        assert await page(session, "/healthz") == (200, "OK")
        with suppress(ConnectionError):
            assert await silent[0][0].read() == b""
        for _, writer in silent:
            writer.transport.abort()


async def page(session, path):
    async with session.get(path) as response:
        return response.status, await response.text()


@pytest.mark.looptime(False)
async def test_the_configuration_is_served():
    async with serving(configuration=lambda: {"kubewright": {"driver": "sim"}}) as session:
        said = '{\n  "kubewright": {\n    "driver": "sim"\n  }\n}'
        assert await page(session, "/configz") == (200, said)


@pytest.mark.looptime(False)
async def test_the_last_plans_are_served_by_namespace_and_name():
    def plans(*, namespace="", name="", waits=0, provider=None):
        return Answer(waits_for=((namespace, name),), driver=provider or "")

    async with serving(plans=plans) as session:
        assert await page(session, "/debug/plans?namespace=ns&name=a") == (200, '{"waitsFor":[["ns","a"]]}')
        asked = "/debug/plans?namespace=ns&name=a&provider=sim"
        assert await page(session, asked) == (200, '{"waitsFor":[["ns","a"]],"driver":"sim"}')
    async with serving() as session:
        assert await page(session, "/debug/plans") == (200, "{}")
