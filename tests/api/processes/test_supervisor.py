"""Programs that really run: started, probed, started again, replaced, ended, and found by the next supervisor.

The programs are small Python scripts, so nothing has to be installed. Waiting is for what the supervisor says
of them, with a deadline.
"""

import asyncio
import json
import os
import shutil
import signal
import socket
import sys
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from kubewright.base.clock import SystemClock
from kubewright.base.errors import InvalidInput
from kubewright.processes import record
from kubewright.processes.linux import MARK
from kubewright.processes.probes import ask
from kubewright.processes.program import FIRST_PAUSE, Command, HttpGet, Phase, Probe, Program, TcpConnect
from kubewright.processes.supervisor import Supervisor

pytestmark = pytest.mark.looptime(False)

NAME = "default/demo/toy-0"
LASTS = "import signal; print('up', flush=True); signal.pause()"
DEAF = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True)\nwhile True: signal.pause()"
FAILS = "import sys; print('the disk is missing', flush=True); sys.exit(3)"
SAYS_UP = Probe(Command(("/bin/grep", "-q", "up", record.OUTPUT)), period=0.02, failures=500)


def toy(script=LASTS, *, name=NAME, **changes):
    program = Program(name, (sys.executable, "-c", script), {"LANG": "C"}, startup=SAYS_UP, grace=5.0)
    return replace(program, **changes)


class Watched:
    """A supervisor and what it says."""

    def __init__(self, supervisor):
        self.supervisor = supervisor
        self._told = asyncio.Event()
        supervisor.listen(lambda _name: self._told.set())

    async def until(self, says, name=NAME):
        """The first status for which ``says`` is true."""
        async with asyncio.timeout(20):
            while not says(status := self.supervisor.status(name)):
                self._told.clear()
                await self._told.wait()
        return status


@asynccontextmanager
async def supervising(root, clock=None):
    """A supervisor that runs; after it, processes go on."""
    stop, supervisor = asyncio.Event(), Supervisor(root, clock or SystemClock())
    watched = Watched(supervisor)
    task = asyncio.create_task(supervisor.run(stop))
    try:
        yield watched
    finally:
        stop.set()
        await task


@pytest.fixture
def root(tmp_path):
    """A folder of a supervisor; whatever still runs from it at the end is killed."""
    yield tmp_path
    for name in record.recorded(tmp_path):
        found = record.read(tmp_path / name)
        if found is not None and found.pid and mark_of(found.pid) == found.mark:
            os.kill(found.pid, signal.SIGKILL)
            with suppress(ChildProcessError):
                os.waitpid(found.pid, 0)


def environment_of(pid):
    return Path(f"/proc/{pid}/environ").read_bytes()


def mark_of(pid):
    try:
        entries = environment_of(pid).decode().split("\0")
    except OSError:
        return ""
    return dict(entry.partition("=")[::2] for entry in entries).get(MARK, "")


def runs(status):
    return status is not None and status.phase is Phase.RUNNING


def gone(status):
    return status is None


async def test_a_program_runs_in_its_folder_with_its_files_and_nothing_of_our_environment(root, monkeypatch):
    monkeypatch.setenv("TOP_SECRET", "hidden")
    script = (
        "import json, os, signal\n"
        "found = {'files': open('files/pki/ca.crt').read(), 'names': sorted(os.environ), 'umask': os.umask(0)}\n"
        "open('found.json', 'w').write(json.dumps(found)); print('up', flush=True); signal.pause()"
    )
    async with supervising(root) as watched:
        watched.supervisor.want(toy(script, files={"pki/ca.crt": b"authority"}))
        status = await watched.until(runs)
        found = json.loads((watched.supervisor.folder(NAME) / "found.json").read_text())
        assert found["files"] == "authority"
        assert set(found["names"]) - {"LC_CTYPE"} == {"LANG", MARK}
        assert found["umask"] == 0o077
        assert (status.pid > 0, status.restarts, status.message) == (True, 0, "")
        watched.supervisor.drop(NAME)
        await watched.until(gone)
        assert record.recorded(root) == []


async def test_a_program_that_ends_is_started_again_and_told(root):
    async with supervising(root) as watched:
        watched.supervisor.want(toy(FAILS))
        status = await watched.until(lambda status: status is not None and status.restarts == 1)
        assert status.phase is Phase.BACK_OFF
        assert status.message == "it ended with exit code 3; the next start is 1 s after that"
        assert record.last_lines(watched.supervisor.folder(NAME)) == ["the disk is missing"]
        watched.supervisor.want(toy())  # mended: it does not wait for the pause
        assert (await watched.until(runs)).restarts == 0  # with these settings it has not failed
        watched.supervisor.drop(NAME)
        await watched.until(gone)


async def test_a_killed_program_is_started_again(root):
    async with supervising(root) as watched:
        watched.supervisor.want(toy())
        first = await watched.until(runs)
        os.kill(first.pid, signal.SIGKILL)
        again = await watched.until(lambda status: runs(status) and status.pid != first.pid)
        assert again.restarts == 1
        watched.supervisor.drop(NAME)
        await watched.until(gone)


class Leaping(SystemClock):
    """A wall clock that is ``ahead``, or behind."""

    def __init__(self, ahead=timedelta()):
        super().__init__()
        self.ahead = ahead

    def now(self):
        return super().now() + self.ahead


async def test_a_wall_clock_that_leaps_ends_no_process_and_makes_no_pause_longer(root):
    clock = Leaping()
    async with supervising(root, clock) as watched:
        watched.supervisor.want(toy())
        first = await watched.until(runs)
        clock.ahead = timedelta(days=400)
        os.kill(first.pid, signal.SIGKILL)
        again = await watched.until(lambda status: runs(status) and status.pid != first.pid)
        clock.ahead = timedelta(days=-400)
    async with supervising(root, Leaping(timedelta(days=-3))) as watched:
        watched.supervisor.want(toy())
        same = await watched.until(runs)
        assert (same.pid, same.restarts) == (again.pid, 0)
        watched.supervisor.drop(NAME)
        await watched.until(gone)


async def test_other_settings_replace_the_process_and_another_probe_does_not(root):
    async with supervising(root) as watched:
        watched.supervisor.want(toy())
        first = await watched.until(runs)
        watched.supervisor.want(toy(readiness=replace(SAYS_UP, period=0.05)))
        same = await watched.until(lambda status: runs(status) and status.ready)
        assert same.pid == first.pid
        watched.supervisor.want(toy(environment={"LANG": "C.UTF-8"}))
        other = await watched.until(lambda status: runs(status) and status.pid != first.pid)
        assert other.restarts == 0
        watched.supervisor.drop(NAME)
        await watched.until(gone)


async def test_a_program_that_does_not_end_is_killed_after_its_grace(root):
    async with supervising(root) as watched:
        watched.supervisor.want(toy(DEAF, grace=0.1))
        first = await watched.until(runs)
        watched.supervisor.drop(NAME)
        await watched.until(gone)
        assert mark_of(first.pid) == ""


async def test_an_end_may_be_given_less_time_than_the_program_has(root):
    async with supervising(root) as watched:
        watched.supervisor.want(toy(DEAF, grace=60.0))
        first = await watched.until(runs)
        watched.supervisor.drop(NAME)
        await watched.until(lambda status: status.phase is Phase.TERMINATING)
        watched.supervisor.drop(NAME, grace=0.1)
        await watched.until(gone)
        assert mark_of(first.pid) == ""


async def test_the_next_supervisor_finds_the_process(root):
    async with supervising(root) as watched:
        watched.supervisor.want(toy())
        first = await watched.until(runs)
    async with supervising(root) as watched:
        watched.supervisor.want(toy())
        found = await watched.until(runs)
        assert (found.pid, found.since, found.restarts) == (first.pid, first.since, 0)
        os.kill(found.pid, signal.SIGKILL)
        again = await watched.until(lambda status: runs(status) and status.pid != first.pid)
        assert again.restarts == 1
        watched.supervisor.drop(NAME)
        await watched.until(gone)


async def test_the_next_supervisor_finds_a_process_whose_number_was_not_written(root):
    async with supervising(root) as watched:
        watched.supervisor.want(toy())
        first = await watched.until(runs)
        folder = watched.supervisor.folder(NAME)
    known = record.read(folder)
    record.write(folder, record.Record(mark=known.mark, fingerprint=known.fingerprint, boot=known.boot))
    async with supervising(root) as watched:
        watched.supervisor.want(toy())
        assert (await watched.until(runs)).pid == first.pid
        watched.supervisor.drop(NAME)
        await watched.until(gone)


@pytest.mark.parametrize("written", [True, False], ids=["by its number", "with its number not written"])
async def test_the_next_supervisor_finds_a_process_that_shows_no_environment(root, written):
    # as every program for an instant after its start, because its parent goes on before it has one
    empties = f"import os, sys; os.execve(sys.executable, [sys.executable, '-c', {LASTS!r}], {{}})"
    async with supervising(root) as watched:
        watched.supervisor.want(toy(empties))
        first = await watched.until(runs)
        folder = watched.supervisor.folder(NAME)
    assert environment_of(first.pid) == b""
    if not written:
        known = record.read(folder)
        record.write(folder, record.Record(mark=known.mark, fingerprint=known.fingerprint, boot=known.boot))
    async with supervising(root) as watched:
        watched.supervisor.want(toy(empties))
        found = await watched.until(runs)
        os.kill(first.pid, signal.SIGKILL)
        assert (found.pid, found.restarts) == (first.pid, 0)
        watched.supervisor.drop(NAME)
        await watched.until(gone)


async def test_a_number_that_another_process_has_by_now_is_not_touched(root):
    async with supervising(root) as watched:
        watched.supervisor.want(toy())
        first = await watched.until(runs)
        folder = watched.supervisor.folder(NAME)
    written = json.loads((folder / record.RECORD).read_bytes())
    (folder / record.RECORD).write_text(json.dumps({**written, "ticks": written["ticks"] - 1}))
    async with supervising(root) as watched:
        watched.supervisor.want(toy())
        other = await watched.until(runs)
        assert other.pid != first.pid
        assert mark_of(first.pid) == written["mark"]
        os.kill(first.pid, signal.SIGKILL)
        watched.supervisor.drop(NAME)
        await watched.until(gone)


async def test_what_was_dropped_unseen_is_ended(root):
    async with supervising(root) as watched:
        watched.supervisor.want(toy())
        first = await watched.until(runs)
    async with supervising(root) as watched:
        assert watched.supervisor.recorded() == [NAME]
        watched.supervisor.drop(NAME)
        await watched.until(gone)
        assert mark_of(first.pid) == ""


async def test_a_program_that_is_not_there_is_told(root):
    async with supervising(root) as watched:
        watched.supervisor.want(Program(NAME, ("/no/such/program",)))
        status = await watched.until(lambda status: status is not None and status.restarts == 1)
        assert (
            "it cannot be started: [Errno 2] No such file or directory: '/no/such/program'" in status.message
        )
        watched.supervisor.drop(NAME)
        await watched.until(gone)


async def test_a_program_whose_liveness_probe_fails_is_replaced(root):
    sick = Probe(Command(("/bin/false",)), period=0.02, failures=2)
    async with supervising(root) as watched:
        watched.supervisor.want(toy(liveness=sick))
        status = await watched.until(lambda status: status is not None and status.restarts == 1)
        assert status.message.startswith("its liveness probe fails: /bin/false exits with 1; the next start")
        watched.supervisor.drop(NAME)
        await watched.until(gone)


async def test_a_program_with_more_memory_than_its_limit_is_killed_and_started_again(root):
    async with supervising(root) as watched:
        watched.supervisor.want(toy(memory=1024 * 1024))
        status = await watched.until(lambda status: status is not None and status.restarts == 1)
        assert "MiB of memory, and its limit is 1 MiB; the next start is 1 s after that" in status.message
        watched.supervisor.drop(NAME)
        await watched.until(gone)


async def test_a_defect_of_ours_neither_ends_the_process_nor_is_repeated_without_a_pause(root, capsys):
    async with supervising(root) as watched:
        watched.supervisor.want(toy())
        first = await watched.until(runs)
        failing = [True]
        watched.supervisor.listen(lambda _name: 1 // 0 if failing and failing.pop() else None)
        began = asyncio.get_running_loop().time()
        watched.supervisor.want(toy(grace=6.0))  # looks, and tells
        told = await watched.until(lambda status: status is not None and status.phase is Phase.WAITING)
        assert (
            told.message
            == "it could not be kept running: ZeroDivisionError: integer division or modulo by zero"
        )
        assert (await watched.until(runs)).pid == first.pid
        assert asyncio.get_running_loop().time() - began >= FIRST_PAUSE
        assert "a program could not be kept running" in capsys.readouterr().out
        watched.supervisor.drop(NAME)
        await watched.until(gone)


@pytest.mark.skipif(os.getuid() != 0, reason="only root may start processes of another user")
async def test_a_program_of_another_user_reads_its_files_and_writes_only_its_data(root):
    script = (
        "import json, os, signal\n"
        "def tried(path):\n"
        "    try: open(path, 'w').write('x'); return True\n"
        "    except OSError: return False\n"
        "found = {'file': open('files/etc/pki/ca.crt').read(), 'uid': os.getuid(), 'groups': os.getgroups(),\n"
        "  'mine': tried('data/a/b'), 'others': tried('output.log.1') or tried('files/etc/x') or tried('x')}\n"
        "open('data/a/found.json', 'w').write(json.dumps(found)); signal.pause()"
    )
    closed = root / "closed"
    (closed / "bin").mkdir(parents=True)
    shell = shutil.copy("/bin/sh", closed / "bin/sh")
    closed.chmod(0o700)
    program = toy(
        files={"etc/pki/ca.crt": b"authority"},
        data=("data/a",),
        user=(65534, 65534),
        argv=(str(shell), "-c", 'exec "$0" -c "$1"', "/usr/bin/python3", script),
        startup=replace(SAYS_UP, check=Command(("/bin/grep", "-q", "uid", "data/a/found.json"))),
    )
    async with supervising(root) as watched:
        watched.supervisor.want(program)
        status = await watched.until(runs)
        folder = watched.supervisor.folder(NAME)
        found = json.loads((folder / "data/a/found.json").read_text())
        assert found == {"file": "authority", "uid": 65534, "groups": [], "mine": True, "others": False}
        assert (status.restarts, folder.stat().st_uid) == (0, 0)
        watched.supervisor.drop(NAME)
        await watched.until(gone)


async def test_readiness_follows_a_server(root):
    script = (
        "import http.server, sys\n"
        "class Ready(http.server.BaseHTTPRequestHandler):\n"
        "    def do_GET(self):\n"
        "        self.send_response(200); self.end_headers()\n"
        "server = http.server.HTTPServer(('127.0.0.1', 0), Ready)\n"
        "open('port', 'w').write(str(server.server_port)); print('up', flush=True); server.serve_forever()"
    )
    async with supervising(root) as watched:
        with socket.socket() as deaf:
            deaf.bind(("127.0.0.1", 0))
            refuses = TcpConnect(*deaf.getsockname())
            watched.supervisor.want(toy(script, readiness=replace(SAYS_UP, check=refuses)))
            await watched.until(lambda status: runs(status) and "Connect call failed" in status.message)
            port = int((watched.supervisor.folder(NAME) / "port").read_text())
        answers = Probe(HttpGet(f"http://127.0.0.1:{port}/readyz"), period=0.02)
        watched.supervisor.want(toy(script, readiness=answers))
        assert (await watched.until(lambda status: status is not None and status.ready)).message == ""
        watched.supervisor.drop(NAME)
        await watched.until(gone)


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_what_a_refused_connection_tells_names_the_address_and_the_cause(tmp_path, scheme):
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        port = deaf.getsockname()[1]
        told = await ask(Probe(HttpGet(f"{scheme}://127.0.0.1:{port}/readyz")), tmp_path, toy(""))
    assert told == f"no connection to 127.0.0.1:{port}: Connect call failed ('127.0.0.1', {port})"


async def test_a_name_that_leaves_the_folder_is_refused(root):
    supervisor = Supervisor(root, SystemClock())
    with pytest.raises(InvalidInput, match="cannot be the name of a program"):
        supervisor.want(toy(name="../other"))
