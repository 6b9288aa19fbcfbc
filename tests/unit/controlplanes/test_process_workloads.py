"""What a host of processes keeps: programs by ordinal, addresses, where programs are, files."""

from ipaddress import IPv4Network
from pathlib import Path

import pytest

from kubewright.api.controlplane.names import Component
from kubewright.api.meta import OwnerReference
from kubewright.base.errors import InvalidInput
from kubewright.controlplanes.hosting.contract import WorkloadIdentity
from kubewright.controlplanes.hosting.processes import kept as changes
from kubewright.controlplanes.hosting.processes.addresses import (
    RANGE,
    Addresses,
    balancer_of,
    choose,
    problem_of_balancing,
    read_range,
    with_balancers,
)
from kubewright.controlplanes.hosting.processes.binaries import (
    Binaries,
    Missing,
    Places,
    missing,
    places,
    version_in,
)
from kubewright.controlplanes.hosting.processes.instances import BALANCER, ProgramSettings, instance_of
from kubewright.controlplanes.hosting.processes.kept import Kept
from kubewright.controlplanes.hosting.processes.store import NotWritten, Store
from kubewright.processes.program import HttpGet, Probe, Program, TcpConnect

OWNER = OwnerReference(api_version="v1", kind="Toy", name="toy", uid="u")
ETCD = WorkloadIdentity("team", "demo", Component.ETCD, OWNER)
SERVER = WorkloadIdentity("team", "demo", Component.API_SERVER, OWNER)
MANAGER = WorkloadIdentity("team", "demo", Component.CONTROLLER_MANAGER, OWNER)
OTHER = WorkloadIdentity("team", "other", Component.ETCD, OWNER)


def programs(fingerprint, count, number=0):
    settings = str(ProgramSettings(fingerprint, number, "1"))
    return tuple(Program(f"team/demo/etcd-{each}", ("/etcd",), settings=settings) for each in range(count))


def applied(kept, fingerprint, count):
    return changes.applied(kept, ETCD, fingerprint, programs(fingerprint, count))


def told(kept):
    """The fingerprint and the number of replacements of each instance."""
    found = {each: ProgramSettings.read(program.settings) for each, program in kept.programs.items()}
    return {each: (started.fingerprint, started.number) for each, started in found.items()}


EMPTY = Kept(identity=ETCD)
TWO = applied(EMPTY, "a", 2)


@pytest.mark.parametrize(
    ("kept", "expected", "discarded"),
    [
        pytest.param(TWO, {0: ("a", 0), 1: ("a", 0)}, (), id="two were applied"),
        pytest.param(applied(TWO, "b", 2), {0: ("a", 0), 1: ("a", 0)}, (), id="they wait to be replaced"),
        pytest.param(
            applied(TWO, "b", 3),
            {0: ("a", 0), 1: ("a", 0), 2: ("b", 0)},
            (),
            id="a new one is as applied last",
        ),
        pytest.param(
            changes.replaced(applied(TWO, "b", 2), 1), {0: ("a", 0), 1: ("b", 1)}, (), id="one was replaced"
        ),
        pytest.param(
            applied(changes.replaced(TWO, 1), "a", 2),
            {0: ("a", 0), 1: ("a", 1)},
            (),
            id="applied again, it is not replaced again",
        ),
        pytest.param(changes.replaced(TWO, 5), {0: ("a", 0), 1: ("a", 0)}, (), id="none of that number"),
        pytest.param(applied(TWO, "a", 1), {0: ("a", 0)}, (1,), id="one fewer, and its data goes"),
        pytest.param(applied(TWO, "a", 0), {}, (), id="none, and all data stays"),
        pytest.param(
            applied(applied(TWO, "a", 1), "a", 2), {0: ("a", 0)}, (1,), id="wanted again before its data went"
        ),
        pytest.param(
            changes.without(applied(applied(TWO, "a", 1), "a", 2), [1]),
            {0: ("a", 0), 1: ("a", 0)},
            (),
            id="wanted again, and its data went",
        ),
        pytest.param(
            changes.removed(TWO, [0, 1, 7], keep_data=False),
            {},
            (0, 1, 7),
            id="removed with an older folder",
        ),
        pytest.param(
            changes.without(changes.removed(TWO, [], keep_data=False), [0]), {}, (1,), id="half removed"
        ),
    ],
)
def test_what_runs_follows_from_what_was_applied_and_replaced(kept, expected, discarded):
    assert (told(kept), kept.discarded) == (expected, discarded)


BALANCER_PROGRAM = Program("team/demo/etcd-balancer", ("/balancer",), settings="b.0.")
BALANCED = changes.applied(EMPTY, ETCD, "a", programs("a", 2), BALANCER_PROGRAM)


@pytest.mark.parametrize(
    ("kept", "expected", "discarded"),
    [
        pytest.param(BALANCED, [BALANCER, 0, 1], (), id="beside the instances"),
        pytest.param(
            changes.applied(BALANCED, ETCD, "b", programs("b", 1), BALANCER_PROGRAM),
            [BALANCER, 0],
            (1,),
            id="whatever their number",
        ),
        pytest.param(
            changes.applied(BALANCED, ETCD, "b", (), BALANCER_PROGRAM), [], (), id="not without instances"
        ),
        pytest.param(
            changes.removed(BALANCED, [BALANCER, 0, 1], keep_data=True), [], (BALANCER, 0, 1), id="removed"
        ),
        pytest.param(changes.replaced(BALANCED, 0), [BALANCER, 0, 1], (), id="not replaced with an instance"),
    ],
)
def test_a_balancer_runs_while_instances_are_wanted(kept, expected, discarded):
    assert (sorted(kept.programs), kept.discarded) == (expected, discarded)


def test_other_settings_of_a_balancer_count_at_once():
    other = Program("team/demo/etcd-balancer", ("/balancer",), settings="c.0.")
    assert changes.applied(BALANCED, ETCD, "a", programs("a", 2), other).programs[BALANCER] == other


def test_a_balancer_has_the_endpoint_all_addresses_and_the_question_of_the_readiness_probe():
    secure = Program("x", ("/x",), readiness=Probe(HttpGet("https://127.1.1.1:6443/readyz?a=b")))
    found = balancer_of(SERVER, ("127.1.0.1", 6443), ["127.1.1.1", "127.1.1.2"], secure, (1, 2))
    assert found.name == "team/demo/apiserver-balancer"
    assert found.argv[-5:] == (
        "--listen=127.1.0.1:6443",
        "--ready=/readyz?a=b",
        "--user=1:2",
        "127.1.1.1",
        "127.1.1.2",
    )
    assert found.user is None
    assert instance_of(found.name) == (("team", "demo", "apiserver"), BALANCER)


@pytest.mark.parametrize(
    "probe",
    [
        pytest.param(None, id="none"),
        pytest.param(Probe(HttpGet("http://127.1.1.1:80/")), id="of plain HTTP"),
        pytest.param(Probe(TcpConnect("127.1.1.1", 1)), id="of a port"),
    ],
)
def test_instances_with_another_readiness_probe_are_not_asked(probe):
    found = balancer_of(SERVER, ("127.1.0.1", 1), ["127.1.1.1"], Program("x", ("/x",), readiness=probe), None)
    assert found.argv[-2:] == ("--listen=127.1.0.1:1", "127.1.1.1")


@pytest.mark.parametrize(
    ("component", "replicas", "refused"),
    [
        (Component.API_SERVER, 7, False),
        (Component.API_SERVER, 8, True),
        (Component.CONTROLLER_MANAGER, 8, False),
    ],
)
def test_more_api_servers_than_a_balancer_has_addresses_for_are_refused(component, replicas, refused):
    assert (problem_of_balancing(component, replicas) != "") is refused


def test_an_endpoint_from_before_there_were_balancers_stays():
    before = {"team/demo/etcd-0": "127.1.0.1", "team/demo/apiserver-0": "127.1.0.2"}
    after = {"team/demo/etcd-0": "127.1.0.1", "team/demo/apiserver-balancer": "127.1.0.2"}
    assert with_balancers(before) == after
    later = {**after, "team/demo/apiserver-0": "127.1.0.3"}
    assert with_balancers(later) == later


def test_another_environment_counts_at_the_next_start_of_the_same_settings():
    later = [Program(each.name, ("/etcd",), {"A": "b"}, settings=each.settings) for each in programs("a", 2)]
    found = changes.applied(changes.replaced(TWO, 0), ETCD, "a", later)
    assert found.programs[0].environment == {"A": "b"}
    assert told(found) == {0: ("a", 1), 1: ("a", 0)}


def test_what_is_kept_is_read_as_it_was_written_and_is_for_its_owner_only(tmp_path):
    store = Store(tmp_path)
    secret = Program(
        "team/demo/etcd-0", ("/etcd",), files={"a": b"\0\xff"}, readiness=Probe(HttpGet("http://a"))
    )
    found = Kept(identity=ETCD, fingerprint="a", latest=(secret,), programs={0: secret}, discarded=(1,))
    store.write(found)
    assert store.all() == [found]
    (file,) = tmp_path.glob("**/*.json")
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    store.forget(ETCD)
    assert list((tmp_path / "workloads").iterdir()) == []


def test_a_damaged_file_stops_the_start_and_names_itself(tmp_path):
    store = Store(tmp_path)
    store.write(EMPTY)
    (file,) = tmp_path.glob("**/*.json")
    file.write_text("{")
    with pytest.raises(InvalidInput, match=r"cannot read .*etcd\.json, which says what runs"):
        store.all()


def test_folders_of_instances_are_found_and_deleted_with_or_without_their_data(tmp_path):
    store, folder = Store(tmp_path), tmp_path / "programs/team/demo"
    for name in ("etcd-0", "etcd-12", "etcd-old", "apiserver-0"):
        (folder / name / "volumes").mkdir(parents=True)
        (folder / name / "process.json").touch()
    assert store.ordinals(ETCD) == [0, 12]
    store.delete(ETCD, 12, keep_data=True)
    assert [path.name for path in (folder / "etcd-12").iterdir()] == ["volumes"]
    store.delete(ETCD, 12, keep_data=False)
    store.delete(ETCD, 12, keep_data=False)
    assert store.ordinals(ETCD) == [0]


def test_a_disk_that_cannot_be_written_is_told(tmp_path):
    (tmp_path / "workloads").touch()
    with pytest.raises(NotWritten, match=r"cannot write .*workloads/team/demo/etcd\.json: Not a directory"):
        Store(tmp_path).write(EMPTY)


SMALL = IPv4Network("127.70.0.0/30")


@pytest.mark.parametrize(
    ("taken", "expected"),
    [
        (set(), {"127.70.0.1", "127.70.0.2", "127.70.0.3"}),
        ({"127.70.0.1"}, {"127.70.0.2", "127.70.0.3"}),
        ({"127.70.0.1", "127.70.0.3"}, {"127.70.0.2"}),
    ],
    ids=["all are free", "one is taken", "one is left"],
)
def test_an_address_is_one_of_the_free_ones(taken, expected):
    assert {choose(f"key {each}", "salt", taken, SMALL) for each in range(50)} == expected


def test_addresses_follow_from_the_key_and_the_salt_of_the_folder():
    network = read_range(RANGE)
    assert choose("a", "salt", (), network) == choose("a", "salt", (), network)
    assert (
        len({choose("a", "salt", (), network), choose("a", "x", (), network), choose("b", "x", (), network)})
        == 3
    )


def test_no_address_is_left():
    with pytest.raises(InvalidInput, match=r"there is no address left in 127\.70\.0\.0/30 for a"):
        choose("a", "salt", {"127.70.0.1", "127.70.0.2", "127.70.0.3"}, SMALL)


@pytest.mark.parametrize(
    "text",
    [
        "8.0.0.0/8",
        "0.0.0.0/0",
        "10.0.0.0/7",
        "127.0.0.0/8",
        "127.0.0.0/24",
        "127.0.0.0/15",
        "x",
        "127.1.2.3/8",
    ],
)
def test_ranges_that_are_public_or_hold_the_usual_addresses_are_refused(text):
    with pytest.raises(InvalidInput):
        read_range(text)


@pytest.mark.parametrize("text", ["127.64.0.0/10", "10.98.0.0/16", "172.16.0.0/12", "192.168.7.0/24"])
def test_ranges_of_loopback_and_private_ones_are_taken(text):
    assert str(read_range(text)) == text


def test_an_instance_keeps_its_address_until_its_component_has_gone(tmp_path):
    book = Addresses(tmp_path, SMALL, "salt")
    given = [book.get(ETCD, 0), book.get(ETCD, 1), book.get(MANAGER, 0)]
    assert len(set(given)) == 3
    again = Addresses(tmp_path, SMALL, "another")
    assert [again.get(ETCD, 0), again.get(ETCD, 1), again.get(MANAGER, 0)] == given
    assert (again.known(MANAGER, 0), again.known(OTHER, 0)) == (given[2], "")
    again.free(ETCD)
    assert again.get(MANAGER, 0) == given[2]
    assert {again.get(OTHER, 0), again.get(OTHER, 1)} == set(given[:2])


@pytest.mark.parametrize(
    ("said", "version"),
    [
        ("etcd Version: 3.6.8\nGit SHA: x\nGo Version: go1.26.8", "3.6.8"),
        ("Kubernetes v1.36.3", "1.36.3"),
        ("Kubernetes v1.37.0-alpha.1+abc", "1.37.0-alpha.1+abc"),
        ("usage: toy", ""),
    ],
)
def test_the_version_in_what_a_program_says(said, version):
    assert version_in(said) == version


def executable(path, version, *, prefix="Kubernetes v"):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n[ \"$1\" = --version ] && echo '{prefix}{version}'\n")
    path.chmod(0o755)
    return path


@pytest.mark.looptime(False)
async def test_a_program_is_found_by_its_version_in_several_places(tmp_path):
    old = executable(tmp_path / "cache/v1.35.1/kube-apiserver", "1.35.1")
    new = executable(tmp_path / "cache/v1.36.3/kube-apiserver", "1.36.3")
    flat = executable(tmp_path / "bin/kube-apiserver", "1.34.0")
    found = Binaries(Places((tmp_path / "cache",), (tmp_path / "bin",)))
    assert found.known("kube-apiserver", "1.36.3") is None
    assert await found.find("kube-apiserver", "1.36.3") == new
    assert await found.find("kube-apiserver", "v1.35.1") == old
    assert await found.find("kube-apiserver", "1.34.0") == flat
    assert await found.find("kube-apiserver", "1.36.4") == found.known("kube-apiserver", "1.36.4")
    executable(new, "1.36.10")  # another size: asked again
    assert await found.find("kube-apiserver", "1.36.10") == new


@pytest.mark.looptime(False)
async def test_a_program_that_is_not_there_in_this_version_is_told_with_those_that_are(tmp_path):
    path = executable(tmp_path / "etcd", "3.5.1", prefix="etcd Version: ")
    assert await Binaries(Places((tmp_path,))).find("etcd", "3.6.8") == Missing(
        f"there is no etcd of version 3.6.8 on this machine ({path} is 3.5.1): run `make kube`, or put it into a "
        "folder that --component-programs or KUBEWRIGHT_ASSETS names"
    )
    assert "(none was found)" in missing("etcd", "3.6.8", {}).message


PLACES = ("cache", "named"), ("bin",), ("named",)


@pytest.mark.parametrize(
    ("program", "usual", "found"),
    [
        pytest.param("etcd-fips", "etcd", "cache/v1/etcd-fips", id="a variant, in the cache"),
        pytest.param("etcd-slim", "etcd", "bin/etcd-slim", id="a variant, in PATH"),
        pytest.param("toy", "etcd", "named/toy", id="any name, in a folder of the administrator's"),
        pytest.param("sh", "etcd", "", id="a shell in PATH"),
        pytest.param("etcd-fips", "kube-apiserver", "", id="a variant of another component's"),
        pytest.param("kubectl", "etcd", "", id="a tool, wherever it is"),
        pytest.param("helper", "etcd", "", id="whatever is in the cache"),
        pytest.param("{folder}/bin/sh", "etcd", "", id="a path"),
        pytest.param("../bin/sh", "etcd", "", id="a path upwards"),
        pytest.param("v1/helper", "etcd", "", id="a path below"),
        pytest.param("", "etcd", "", id="no name"),
        pytest.param("..", "etcd", "", id="dots"),
    ],
)
@pytest.mark.looptime(False)
async def test_another_program_is_one_in_a_folder_that_the_administrator_named(
    tmp_path, program, usual, found
):
    for each in (
        "cache/v1/etcd-fips",
        "cache/helper",
        "bin/sh",
        "bin/etcd-slim",
        "named/toy",
        "named/kubectl",
    ):
        executable(tmp_path / each, "1.0.0")
    programs = Binaries(Places(*(tuple(tmp_path / each for each in folders) for folders in PLACES)))
    asked = program.format(folder=tmp_path)
    known = programs.known(asked, "1.0.0", usual)
    assert await programs.find(asked, "1.0.0", usual) == known
    assert known == tmp_path / found if found else isinstance(known, Missing)


def test_a_kept_program_is_started_again_only_from_where_it_may_come_from(tmp_path):
    named, cache, bins = (tmp_path / each for each in ("named", "cache", "bin"))
    programs = Binaries(Places((named, cache), (bins,), (named,)))
    for good in ("cache/etcd", "cache/v1/etcd", "bin/etcd-slim", "named/toy", "named/v1/toy"):
        assert programs.admits(tmp_path / good, "etcd")
    for bad in (
        "evil/etcd", "bin/v1/etcd", "cache/v1/bin/etcd", "cache/toy", "bin/sh", "named/../etcd", "named/kubectl",
    ):  # fmt: skip
        assert not programs.admits(tmp_path / bad, "etcd")
    assert not Binaries(Places()).admits(Path("/tmp/evil/etcd"), "etcd")


def test_a_folder_of_the_administrator_that_is_in_path_or_the_cache_has_not_programs_of_any_name(tmp_path):
    environ = {"KUBEWRIGHT_ASSETS": "/assets:/usr/bin", "HOME": "/ann", "PATH": "/opt/bin"}
    folders = ["/own", "/opt/bin", "/ann/.cache/kubewright/kube/v1.36.3"]
    found = places(environ, folders)
    assert [str(each) for each in found.named] == ["/own", "/assets"]
    assert [str(each) for each in found.versioned][:5] == [*folders, "/assets", "/usr/bin"]


def test_where_programs_are_looked_for():
    found = places({"KUBEWRIGHT_ASSETS": "/a:/b", "HOME": "/ann", "PATH": "/usr/bin:"}, ["/option"])
    assert [str(each) for each in found.versioned] == [
        "/option",
        "/a",
        "/b",
        "/ann/.cache/kubewright/kube",
    ]
    assert [str(each) for each in found.flat] == ["/usr/bin"]
    assert str(places({"XDG_CACHE_HOME": "/x"}).versioned[-1]) == "/x/kubewright/kube"
