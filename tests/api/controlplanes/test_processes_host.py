"""Components as processes: applied, replaced one by one, found after a restart, removed.

The programs are small Python scripts, so nothing has to be installed. Waiting is for what the host says of
them, with a deadline.
"""

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from msgspec import structs

from kubewright.api.controlplane.names import Component
from kubewright.api.meta import OwnerReference
from kubewright.base.clock import SystemClock
from kubewright.base.errors import InvalidInput
from kubewright.controlplanes.hosting.contract import Running, Workload, WorkloadIdentity
from kubewright.controlplanes.hosting.processes.binaries import Places
from kubewright.controlplanes.hosting.processes.host import ProcessHosting
from kubewright.controlplanes.hosting.processes.options import Settings
from kubewright.controlplanes.hosting.processes.store import NotWritten, Store
from kubewright.controlplanes.templates.render import Rendered
from kubewright.processes import record
from kubewright.processes.program import Command as CommandProbe
from kubewright.processes.program import Probe
from kubewright.testing.left_programs import environment_of
from kubewright.wire.gvk import Key

pytestmark = pytest.mark.looptime(False)

SERVES = (
    "import json, os, signal, socket, sys\n"
    "found = {'args': sys.argv[1:], 'ca': open(os.environ['PKI_DIR'] + '/ca/tls.crt').read()}\n"
    "os.makedirs(os.environ['DATA_DIR'], exist_ok=True)\n"
    "starts = open(os.environ['DATA_DIR'] + '/starts', 'a'); print(json.dumps(found), file=starts, flush=True)\n"
    "server = socket.create_server((os.environ['ADDRESS'], 6443)); signal.pause()"
)
DEAF = SERVES.replace(
    "import json", "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\nimport json"
).replace("signal.pause()", "\nwhile True: signal.pause()")
"""Does not end when it is asked to."""
ANSWERS = SERVES.replace(
    "signal.pause()",
    "\nwhile True:\n"
    "    client = server.accept()[0]\n"
    "    if client.recv(9): client.sendall(os.environ['INSTANCE'].encode())\n"
    "    client.close()",
)
"""Answers with the name of its instance."""
needs_root = pytest.mark.skipif(os.getuid() != 0, reason="only root may start processes of another user")
OWNER = OwnerReference(api_version="controlplane.cluster.x-k8s.io/v1alpha4", kind="Toy", name="toy", uid="u")
PLACE = WorkloadIdentity("default", "demo", Component.API_SERVER, OWNER)
PROBE = {"tcpSocket": {"port": "api"}, "periodSeconds": 0.1, "failureThreshold": 200}


SAYS = "import sys; sys.exit('listen tcp 127.64.0.9:6443: bind: address already in use')"
SCRIPTS = {"serves": SERVES, "deaf": DEAF, "answers": ANSWERS, "says": SAYS}
BIN = []
"""The folder with the programs."""


@pytest.fixture(scope="module", autouse=True)
def programs(tmp_path_factory):
    """A program for each script, which each user may read; one of them by each Python that there is."""
    folder = tmp_path_factory.mktemp("bin")
    for name, script in SCRIPTS.items():
        for python in (sys.executable, "/usr/bin/python3"):
            path = folder / named(name, python)
            path.write_text(f"#!{python}\n{script}\n")
            path.chmod(0o755)
    BIN.append(folder)


def named(script, python=sys.executable):
    return f"kube-apiserver-{script}-{'own' if python == sys.executable else 'any'}"


def manifest(*flags, script="serves", probe=PROBE, python=sys.executable):
    container = {
        "name": "toy",
        "command": [named(script, python)],
        "args": ["--name=$(INSTANCE)", "--data=$(DATA_DIR)", *flags],
        "ports": [{"name": "api", "containerPort": 6443}],
        "startupProbe": probe,
        "volumeMounts": [
            {"name": "data", "mountPath": "/var/lib/etcd"},
            {"name": "ca", "mountPath": "/etc/kubernetes/pki/ca", "readOnly": True},
        ],
    }
    pod = {
        "containers": [container],
        "volumes": [
            {
                "name": "ca",
                "secret": {"secretName": "demo-ca", "items": [{"key": "tls.crt", "path": "tls.crt"}]},
            }
        ],
        "terminationGracePeriodSeconds": 1,
    }
    claims = [{"metadata": {"name": "data"}, "spec": {}}]
    return {"kind": "StatefulSet", "spec": {"template": {"spec": pod}, "volumeClaimTemplates": claims}}


def workload(*flags, replicas=1, certificate=b"authority", identity=PLACE, **rest):
    contents = {"demo-ca": {"tls.crt": certificate, "tls.key": b"not for everyone"}}
    return Workload(identity, "1.36.3", Rendered([manifest(*flags, **rest)]), replicas, contents)


class Watched:
    """A host and what it says."""

    def __init__(self, hosting, folder):
        self.hosting, self.folder = hosting, folder
        self._told = asyncio.Event()
        hosting.listen(lambda _key: self._told.set())

    async def until(self, says, identity=PLACE):
        """The first status for which ``says`` is true."""
        async with asyncio.timeout(20):
            while not says(status := self.hosting.status(identity)):
                self._told.clear()
                await self._told.wait()
        return status

    def instance(self, ordinal=0):
        return self.folder / f"programs/default/demo/apiserver-{ordinal}"

    def starts(self, ordinal=0):
        lines = (self.instance(ordinal) / "volumes/data/data/starts").read_text().splitlines()
        return [json.loads(line) for line in lines]

    def pid(self, ordinal=0):
        return record.read(self.instance(ordinal)).pid


@asynccontextmanager
async def hosted(folder, **settings):
    """A host that runs; after it, processes go on."""
    async with ProcessHosting(Settings(folder, Places((BIN[-1],)), **settings), SystemClock()) as hosting:
        yield Watched(hosting, folder)


@pytest.fixture
def folder(tmp_path):
    """A folder of a host; whatever still runs from it at the end is killed."""
    yield tmp_path
    for name in record.recorded(tmp_path / "programs"):
        found = record.read(tmp_path / "programs" / name)
        if found is not None and found.pid and alive(found.pid):
            with suppress(ProcessLookupError):
                os.kill(found.pid, signal.SIGKILL)
            with suppress(ChildProcessError):
                os.waitpid(found.pid, 0)


def alive(pid):
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().split()[2] not in ("Z", "X")
    return False


def user_of(pid):
    return Path(f"/proc/{pid}").stat().st_uid


def ready(count, applied=None):
    """Whether so many instances are ready, and are what was applied."""

    def says(status):
        fits = [each for each in status.instances if applied in (None, each.fingerprint) and not each.ending]
        return [each.ready for each in fits] == [True] * count and len(status.instances) == count

    return says


def reachable(count, status):
    """Whether so many instances are ready, and clients reach them."""
    return ready(count)(status) and not status.closed


def gone(status):
    """Whether nothing of it is left but data."""
    return status == Running(kept=status.kept)


async def removed(watched, **options):
    await watched.hosting.remove(PLACE, keep_data=options.get("keep_data", False))
    await watched.until(gone)


async def test_an_instance_runs_at_its_own_address_with_its_files_and_data(folder):
    async with hosted(folder) as watched:
        assert watched.hosting.addresses(PLACE, 1).hosts == ()
        wanted = workload()
        assert watched.hosting.problem_of(wanted) == ""
        await watched.hosting.apply(wanted)
        status = await watched.until(ready(1))
        (instance,) = status.instances
        assert (instance.name, instance.version) == ("demo-apiserver-0", "1.36.3")
        assert instance.host != watched.hosting.addresses(PLACE, 1).endpoint[0]
        assert (instance.fingerprint, status.applied, status.replicas) == (wanted.fingerprint,) * 2 + (1,)
        assert (instance.message, instance.restarts, instance.memory > 2**20) == ("", 0, True)
        assert watched.starts() == [
            {
                "args": ["--name=demo-apiserver-0", f"--data={watched.instance()}/volumes/data/data"],
                "ca": "authority",
            }
        ]
        await removed(watched)
        assert [path for path in folder.rglob("*") if path.suffix != ".json" and path.name != "lock"] == [
            folder / "programs",
            folder / "workloads",
        ]


async def test_no_file_is_for_others_and_no_secret_is_where_it_is_not_mounted(folder):
    async with hosted(folder) as watched:
        await watched.hosting.apply(workload())
        await watched.until(ready(1))
        assert {
            path: oct(path.stat().st_mode) for path in folder.rglob("*") if path.stat().st_mode & 0o077
        } == {}
        below = [path for path in watched.instance().rglob("*") if path.is_file()]
        assert not [path for path in below if b"not for everyone" in path.read_bytes()]
        await removed(watched)


async def test_other_settings_wait_until_each_instance_is_replaced(folder):
    async with hosted(folder) as watched:
        await watched.hosting.apply(first := workload(replicas=2))
        await watched.until(ready(2, first.fingerprint))
        pids = [watched.pid(0), watched.pid(1)]
        await watched.hosting.apply(second := workload("--v=2", replicas=2))
        status = watched.hosting.status(PLACE)
        assert (status.applied, [each.fingerprint for each in status.instances]) == (
            second.fingerprint,
            [first.fingerprint] * 2,
        )
        await watched.hosting.replace(PLACE, 1)
        await watched.until(
            lambda status: ready(2)(status) and status.instances[1].fingerprint == second.fingerprint
        )
        assert (watched.pid(0), alive(pids[1])) == (pids[0], False)
        assert [start["args"][2:] for start in watched.starts(1)] == [[], ["--v=2"]]
        await removed(watched)


async def answered(endpoint):
    """What a client of the endpoint hears."""
    reader, writer = await asyncio.open_connection(*endpoint)
    writer.write(b"hello")
    try:
        return (await reader.read()).decode()
    finally:
        writer.transport.abort()


async def test_one_endpoint_leads_to_the_instances_that_there_are_whatever_their_number(folder):
    async with hosted(folder) as watched:
        endpoint = watched.hosting.addresses(PLACE, 1).endpoint
        for count in (1, 2, 1):
            await watched.hosting.apply(workload(replicas=count, script="answers"))
            status = await watched.until(partial(reachable, count))
            assert watched.hosting.addresses(PLACE, count).endpoint == endpoint
            assert await answered(endpoint) in {each.name for each in status.instances}
        pid = watched.pid("balancer")
    async with hosted(folder) as watched:
        await watched.until(partial(reachable, 1))
        assert (watched.pid("balancer"), await answered(endpoint)) == (pid, "demo-apiserver-0")
        await removed(watched)


async def test_an_instance_as_it_should_be_is_restarted_once_when_it_is_replaced(folder):
    async with hosted(folder) as watched:
        await watched.hosting.apply(workload())
        await watched.until(ready(1))
        await watched.hosting.replace(PLACE, 0)
        await watched.hosting.replace(PLACE, 7)
        await watched.hosting.apply(workload())
        await watched.until(lambda status: ready(1)(status) and len(watched.starts()) == 2)
        assert watched.hosting.status(PLACE).instances[0].restarts == 0
        await removed(watched)


async def test_a_restart_of_the_host_leaves_processes_and_what_they_wait_for_alone(folder):
    async with hosted(folder) as watched:
        await watched.hosting.apply(first := workload())
        await watched.until(ready(1))
        address, pid = watched.hosting.addresses(PLACE, 1), watched.pid()
        await watched.hosting.apply(second := workload(certificate=b"renewed"))
    async with hosted(folder) as watched:
        status = await watched.until(ready(1))
        assert (watched.pid(), watched.hosting.addresses(PLACE, 1)) == (pid, address)
        assert (status.instances[0].fingerprint, status.applied) == (first.fingerprint, second.fingerprint)
        await watched.hosting.replace(PLACE, 0)
        await watched.until(ready(1, second.fingerprint))
        assert [start["ca"] for start in watched.starts()] == ["authority", "renewed"]
        await removed(watched)


async def test_an_instance_that_was_killed_comes_back_as_it_was(folder):
    async with hosted(folder) as watched:
        await watched.hosting.apply(workload())
        await watched.until(ready(1))
        await watched.hosting.apply(workload("--v=2"))
        os.kill(pid := watched.pid(), signal.SIGKILL)
        status = await watched.until(lambda status: ready(1)(status) and status.instances[0].restarts == 1)
        assert watched.pid() != pid
        assert [start["args"][2:] for start in watched.starts()] == [[], []]
        assert status.instances[0].fingerprint == workload().fingerprint
        await removed(watched)


async def test_a_smaller_number_deletes_the_data_of_the_others_and_none_keeps_all(folder):
    async with hosted(folder) as watched:
        await watched.hosting.apply(workload(replicas=2))
        await watched.until(ready(2))
        await watched.hosting.apply(workload(replicas=1))
        await watched.until(ready(1))
        await watched.hosting.apply(workload(replicas=2))
        await watched.until(ready(2))
        assert [len(watched.starts(each)) for each in (0, 1)] == [1, 1]
        await watched.hosting.apply(workload(replicas=0))
        asleep = await watched.until(ready(0))
        assert (asleep.replicas, asleep.exists) == (0, True)
        await watched.hosting.apply(workload(replicas=2))
        await watched.until(ready(2))
        assert [len(watched.starts(each)) for each in (0, 1)] == [2, 2]
        await removed(watched)


async def test_data_that_is_kept_is_there_for_the_next_workload_of_the_name(folder):
    async with hosted(folder) as watched:
        await watched.hosting.apply(workload())
        await watched.until(ready(1))
        await removed(watched, keep_data=True)
        assert sorted(path.name for path in watched.instance().iterdir()) == ["volumes"]
        await watched.hosting.apply(workload())
        await watched.until(ready(1))
        assert len(watched.starts()) == 2
        await removed(watched)


async def test_a_removal_that_was_begun_is_finished_after_a_restart(folder):
    async with hosted(folder) as watched:
        await watched.hosting.apply(workload(script="deaf"))
        await watched.until(ready(1))
        pid = watched.pid()
        await watched.hosting.remove(PLACE, keep_data=False)
        with pytest.raises(Exception, match="demo-apiserver is still being removed"):
            await watched.hosting.apply(workload())
        assert alive(pid)
    async with hosted(folder) as watched:
        await watched.until(gone)
        assert not alive(pid)
        assert not watched.instance().exists()


async def test_an_instance_that_is_put_to_sleep_is_seen_until_it_has_ended(folder):
    async with hosted(folder) as watched:
        await watched.hosting.apply(workload(script="deaf"))
        await watched.until(ready(1))
        pid = watched.pid()
        await watched.hosting.apply(workload(script="deaf", replicas=0))
        await watched.until(
            lambda status: [(each.ready, each.ending) for each in status.instances] == [(False, True)]
        )
    async with hosted(folder) as watched:
        status = watched.hosting.status(PLACE)
        assert ([each.ordinal for each in status.instances], alive(pid)) == ([0], True)
        await watched.until(ready(0))
        assert (alive(pid), len(watched.starts())) == (False, 1)
        await removed(watched)


async def test_a_program_that_ends_says_why(folder):
    async with hosted(folder) as watched:
        await watched.hosting.apply(workload(script="says"))
        status = await watched.until(lambda status: bool(status.instances and status.instances[0].restarts))
        assert status.instances[0].message == (
            "it ended with exit code 1; the next start is 1 s after that; the last that it wrote: "
            "listen tcp 127.64.0.9:6443: bind: address already in use"
        )
        await removed(watched)


async def test_a_disk_that_is_full_is_told_and_changes_nothing(folder):
    async with hosted(folder) as watched:
        (folder / "workloads").write_text("in the way")
        with pytest.raises(NotWritten, match=r"cannot write .*apiserver\.json: Not a directory"):
            await watched.hosting.apply(workload())
        assert watched.hosting.status(PLACE) == Running()
        (folder / "workloads").unlink()
        (folder / "programs").write_text("in the way")
        await watched.hosting.apply(workload())
        status = await watched.until(lambda status: bool(status.instances and status.instances[0].restarts))
        assert "it cannot be started: [Errno 20] Not a directory" in status.instances[0].message
        (folder / "programs").unlink()
        await watched.until(ready(1))
        await removed(watched)


async def test_processes_whose_folder_is_gone_end_with_the_host(folder):
    async with hosted(folder / "host") as watched:
        await watched.hosting.apply(workload(script="deaf"))
        await watched.until(ready(1))
        pid = watched.pid()
        shutil.rmtree(folder / "host")
        assert alive(pid)
    async with asyncio.timeout(5):
        while alive(pid):
            await SystemClock().sleep(0.01)
    assert not (folder / "host").exists()


async def test_one_host_has_the_folder(folder):
    async with hosted(folder):
        with pytest.raises(InvalidInput, match=f"{folder} is in use by process {os.getpid()}"):
            async with hosted(folder):
                pass


async def test_changes_are_told_by_the_key_of_the_component(folder):
    told = []
    async with hosted(folder) as watched:
        watched.hosting.listen(told.append)
        await watched.hosting.apply(workload())
        await watched.until(ready(1))
        await removed(watched)
    assert set(told) == {Key("default", "toy")}


@needs_root
async def test_programs_run_as_a_user_without_rights_and_keep_their_data(folder):
    async with hosted(folder, user=(65534, 65534)) as watched:
        await watched.hosting.apply(workload(python="/usr/bin/python3"))
        await watched.until(ready(1))
        assert user_of(watched.pid()) == 65534
        await watched.hosting.replace(PLACE, 0)
        await watched.until(lambda status: ready(1)(status) and len(watched.starts()) == 2)
        await removed(watched)


OTHER = WorkloadIdentity("other", "demo", Component.API_SERVER, OWNER)
UIDS = range(1_900_000_000, 1_900_000_010)
READS = "import sys; print(open(sys.argv[1], 'rb').read().decode())"


def read_as(uid, path):
    """What a program of this user reads there; empty: it may not."""
    command = ["/usr/bin/python3", "-c", READS, str(path)]
    found = subprocess.run(command, capture_output=True, user=uid, group=uid, extra_groups=[], check=False)
    return found.stdout.decode().strip()


@needs_root
async def test_programs_of_two_control_planes_cannot_read_each_other(folder):
    async with hosted(folder, uids=UIDS) as watched:
        for identity in (PLACE, OTHER):
            await watched.hosting.apply(workload(python="/usr/bin/python3", identity=identity))
            await watched.until(partial(reachable, 1), identity)
        pids = [watched.pid(), record.read(folder / "programs/other/demo/apiserver-0").pid]
        one, other = map(user_of, pids)
        assert one != other
        assert {one, other} < set(UIDS)
        key = f"/proc/{pids[1]}/cwd/files/etc/kubernetes/pki/ca/tls.crt"
        assert (read_as(other, key), read_as(one, key)) == ("authority", "")
        assert "INSTANCE" in read_as(other, f"/proc/{pids[1]}/environ")
        assert read_as(one, f"/proc/{pids[1]}/environ") == ""
    async with hosted(folder, uids=range(1_900_000_010, 1_900_000_020)) as watched:
        await watched.until(ready(1), OTHER)
        await watched.hosting.replace(OTHER, 0)
        started = folder / "programs/other/demo/apiserver-0/volumes/data/data/starts"
        await watched.until(
            lambda status: ready(1)(status) and len(started.read_text().splitlines()) == 2, OTHER
        )
        assert user_of(record.read(folder / "programs/other/demo/apiserver-0").pid) == other
        await watched.hosting.remove(OTHER, keep_data=False)
        await watched.until(gone, OTHER)
        await removed(watched)
        assert json.loads((folder / "users.json").read_text())["uids"] == {}


@needs_root
async def test_data_of_a_user_for_all_is_handed_over_to_that_of_the_control_plane(folder):
    async with hosted(folder, user=(65534, 65534)) as watched:
        await watched.hosting.apply(workload(python="/usr/bin/python3"))
        await watched.until(partial(reachable, 1))
        pid = watched.pid()
    async with hosted(folder, uids=UIDS) as watched:
        await watched.hosting.apply(workload(python="/usr/bin/python3"))
        await watched.until(ready(1))
        assert (watched.pid(), user_of(pid)) == (pid, 65534)
        await watched.hosting.replace(PLACE, 0)
        await watched.until(lambda status: ready(1)(status) and len(watched.starts()) == 2)
        own = user_of(watched.pid())
        assert own in UIDS
        data = watched.instance() / "volumes/data"
        assert {each.stat().st_uid for each in (data, *data.rglob("*"))} == {own}
        await removed(watched)


async def test_a_second_namespace_is_refused_where_all_programs_have_one_user_unless_that_is_allowed(folder):
    async with hosted(folder) as watched:
        await watched.hosting.apply(workload())
        told = watched.hosting.problem_of(workload(identity=OTHER))
        assert told.startswith("control planes of namespace default run on this machine as the same user")
        with pytest.raises(InvalidInput, match="allow it with --share-component-user"):
            await watched.hosting.apply(workload(identity=OTHER))
        assert watched.hosting.problem_of(workload(replicas=2)) == ""
        await watched.until(ready(1))
        await removed(watched, keep_data=True)
        assert watched.hosting.problem_of(workload(identity=OTHER)) == told
        await watched.hosting.remove(PLACE, keep_data=False)
        await watched.until(lambda _: not watched.instance().exists())
        assert watched.hosting.problem_of(workload(identity=OTHER)) == ""
    async with hosted(folder, shared=True) as watched:
        for identity in (PLACE, OTHER):
            await watched.hosting.apply(workload(identity=identity))
            await watched.until(partial(reachable, 1), identity)
        for identity in (PLACE, OTHER):
            await watched.hosting.remove(identity, keep_data=False)
            await watched.until(gone, identity)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"argv": ("/bin/sh", "-c", "id")}, id="another program"),
        pytest.param({"argv": ("/bin/kube-apiserver", "--audit-log-path=/srv/x")}, id="a path"),
        pytest.param({"liveness": Probe(CommandProbe(("id",)))}, id="a command of a probe"),
    ],
)
async def test_a_program_that_was_kept_and_would_be_refused_today_ends_and_is_not_started(folder, change):
    async with hosted(folder) as watched:
        await watched.hosting.apply(workload())
        await watched.until(partial(reachable, 1))
        pid = watched.pid()
    store = Store(folder)
    (kept,) = store.all()
    poison = replace(kept.latest[0], **change)
    store.write(structs.replace(kept, latest=(poison,), programs={**kept.programs, 0: poison}))
    async with hosted(folder) as watched:
        await watched.until(lambda status: not status.instances)
        status = watched.hosting.status(PLACE)
        assert (alive(pid), status.applied, status.exists) == (False, "", True)
        await watched.hosting.apply(workload())
        await watched.until(ready(1))
        assert len(watched.starts()) == 2
        await removed(watched)


async def test_variables_that_were_kept_and_that_no_process_gets_today_are_gone_at_the_next_start(folder):
    async with hosted(folder) as watched:
        await watched.hosting.apply(workload())
        await watched.until(partial(reachable, 1))
        pid = watched.pid()
    store = Store(folder)
    (kept,) = store.all()
    variables = {**kept.latest[0].environment, "LD_PRELOAD": "/x", "PATH": "/x", "GOGC": "50"}
    old = replace(kept.latest[0], environment=variables)
    store.write(structs.replace(kept, latest=(old,), programs={**kept.programs, 0: old}))
    async with hosted(folder) as watched:
        await watched.until(ready(1))
        assert watched.pid() == pid
        await watched.hosting.replace(PLACE, 0)
        await watched.until(lambda status: ready(1)(status) and len(watched.starts()) == 2)
        found = environment_of(watched.pid()).decode().split("\0")
        assert "GOGC=50" in found
        assert not [each for each in found if each.startswith("LD_") or each == "PATH=/x"]
        await removed(watched)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        pytest.param({"command": ["/bin/sh"]}, "'/bin/sh' is not the name of a program", id="a path"),
        pytest.param({"command": ["sh"]}, "there is no program sh for kube-apiserver", id="a shell"),
        pytest.param({"args": ["--config=/etc/shadow"]}, "the argument '--config' names a path", id="a file"),
        pytest.param({"env": [{"name": "LD_PRELOAD", "value": "x"}]}, "env[0]: the variable", id="a library"),
        pytest.param(
            {"livenessProbe": {"exec": {"command": ["id"]}}},
            "a process of this machine cannot have",
            id="a command",
        ),
        pytest.param(
            {"volumeMounts": [{"name": "data", "mountPath": "/../../x"}]},
            "spec.template.spec.cont",
            id="a mount",
        ),
    ],
)
async def test_what_leads_out_of_the_folder_of_a_program_is_refused_and_nothing_is_started(
    folder, change, told
):
    wanted = workload()
    pod = wanted.rendered.workload["spec"]["template"]["spec"]
    pod["containers"][0].update(change)
    async with hosted(folder) as watched:
        assert watched.hosting.problem_of(wanted).startswith(told)
        with pytest.raises(InvalidInput):
            await watched.hosting.apply(wanted)
        assert watched.hosting.status(PLACE) == Running()
        assert not (folder / "programs").exists()
