"""Profiles over HTTP: where time goes, what tasks wait for, and only where they are asked for."""

import asyncio
import io
import pstats
import sys

import pytest
from tests.unit.runtime.conftest import serving

from kubewright.base.clock import SystemClock
from kubewright.runtime.health import Profiles, tasks


async def page(session, path):
    async with session.get(path) as response:
        return response.status, await response.read()


def a_busy_function():
    return sum(range(1000))


async def be_busy():
    while True:
        a_busy_function()
        await asyncio.sleep(0)


@pytest.fixture
async def busy():
    task = asyncio.create_task(be_busy(), name="busy")
    yield
    task.cancel()


@pytest.mark.looptime(False)
async def test_a_profile_names_the_function_that_takes_the_time(busy):
    async with serving(profiles=Profiles(SystemClock())) as session:
        status, text = await page(session, "/debug/pprof/profile?seconds=0.05")
    assert (status, b"a_busy_function" in text) == (200, True)


@pytest.mark.looptime(False)
async def test_a_profile_is_a_file_for_pstats_if_wanted(busy, tmp_path):
    file = tmp_path / "profile"
    async with serving(profiles=Profiles(SystemClock())) as session:
        status, body = await page(session, "/debug/pprof/profile?seconds=0.05&format=pstats")
    file.write_bytes(body)
    out = io.StringIO()
    pstats.Stats(str(file), stream=out).print_stats()
    assert (status, "a_busy_function" in out.getvalue()) == (200, True)


@pytest.mark.looptime(False)
async def test_one_profile_at_a_time_and_none_is_left_on():
    async with serving(profiles=Profiles(SystemClock())) as session:
        found = [page(session, "/debug/pprof/profile?seconds=0.2") for _ in range(2)]
        assert sorted([status for status, _ in await asyncio.gather(*found)]) == [200, 409]
        assert (await page(session, "/debug/pprof/profile?seconds=0.01"))[0] == 200
    assert sys.getprofile() is None


@pytest.mark.looptime(False)
@pytest.mark.parametrize("seconds", ["0", "-1", "121", "nan", "soon", ""])
async def test_a_time_that_cannot_be_is_refused(seconds):
    async with serving(profiles=Profiles(SystemClock())) as session:
        answer = await page(session, f"/debug/pprof/profile?seconds={seconds}")
    assert answer == (400, b"seconds: more than 0, and 120 at most\n")


async def waits_inside():
    await asyncio.Event().wait()


async def waits():
    await waits_inside()


async def test_tasks_are_shown_with_all_that_they_wait_for():
    task = asyncio.create_task(waits(), name="a task of this test")
    await asyncio.sleep(0)
    shown = tasks().split("a task of this test\n")[1].splitlines()[:3]
    task.cancel()
    assert [line.rsplit(" ", 1)[1] for line in shown] == ["waits", "waits_inside", "Event.wait"]


@pytest.mark.looptime(False)
async def test_tasks_and_an_index_are_pages():
    async with serving(profiles=Profiles(SystemClock())) as session:
        status, text = await page(session, "/debug/pprof/goroutine")
        assert (status, b"HealthServer.run" in text) == (200, True)
        status, text = await page(session, "/debug/pprof/")
        assert (status, b"/debug/pprof/goroutine" in text) == (200, True)


@pytest.mark.looptime(False)
async def test_without_the_switch_there_are_none():
    async with serving() as session:
        for path in ("/debug/pprof/", "/debug/pprof/profile", "/debug/pprof/goroutine"):
            assert (await page(session, path))[0] == 404
