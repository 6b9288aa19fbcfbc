"""What runs the programs of components: the same tests judge every host that there is, by the contract."""

import hashlib
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest
import structlog
from tests.conformance.hosts import CONTENTS, KEY, PKI, Site, alive, pods, processes

from kubewright.controlplanes.hosting.contract import Running
from kubewright.kube.client import Client
from kubewright.testing.servers import embedded_api, real_api

pytestmark = [pytest.mark.looptime(False), pytest.mark.timeout(90)]

HOSTS = [
    pytest.param("processes", id="processes"),
    pytest.param("pods", id="pods"),
    pytest.param("real pods", id="pods of a real Kubernetes", marks=pytest.mark.kube),
]


@pytest.fixture(params=HOSTS)
async def site(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Site]:
    """A host with nothing on it."""
    if request.param == "processes":
        async with processes(tmp_path) as found:
            yield found
        return
    real = request.param == "real pods"
    server = real_api(request.getfixturevalue("real_kubernetes")) if real else embedded_api()
    async with (
        server as api,
        pods(partial(Client, api.transport, api.clock), tmp_path, manager=not real) as found,
    ):
        yield found


# ---------------------------------------------------------------- where


async def test_instances_are_placed_before_they_run_and_stay_there(site: Site) -> None:
    three = site.hosting.addresses(site.identity, 3)
    assert len(set(three.hosts)) == 3
    assert site.hosting.addresses(site.identity, 3) == three
    assert site.hosting.addresses(site.identity, 1).hosts == three.hosts[:1]
    assert set(site.hosting.addresses(site.other, 3).hosts).isdisjoint(three.hosts)


# ---------------------------------------------------------------- start


async def test_nothing_is_there_before_anything_is_applied(site: Site) -> None:
    assert site.hosting.status(site.identity) == Running(data=frozenset())


async def test_what_is_applied_runs(site: Site) -> None:
    workload = await site.started(2)
    found = site.hosting.status(site.identity)
    hosts = site.hosting.addresses(site.identity, 2).hosts
    assert (found.applied, found.replicas, found.exists) == (workload.fingerprint, 2, True)
    assert [
        (
            each.ordinal,
            each.name,
            each.host,
            each.version,
            each.ready,
            each.ending,
            each.restarts,
            each.message,
        )
        for each in found.instances
    ] == [
        (ordinal, f"demo-etcd-{ordinal}", hosts[ordinal], "1.2.3", True, False, 0, "") for ordinal in range(2)
    ]
    assert all(each.since > 0 for each in found.instances)


async def test_an_instance_knows_who_and_where_it_is(site: Site) -> None:
    await site.started(environment={"EXTRA": "yes"})
    noted = site.last()
    known = noted["variables"]
    assert known["INSTANCE"] == "demo-etcd-0"
    assert known["NAMESPACE"] == site.identity.namespace
    assert known["HOST"] == site.hosting.addresses(site.identity, 1).hosts[0]
    assert known["EXTRA"] == "yes"
    assert f"--listen={known['ADDRESS']}:18080" in noted["arguments"]
    assert f"--data={known['DATA_DIR']}" in noted["arguments"]
    assert noted["files"] == {
        f"demo/{name}": hashlib.sha256(content).hexdigest() for name, content in CONTENTS[PKI].items()
    }


async def test_applying_the_same_again_starts_nothing(site: Site) -> None:
    workload = await site.started()
    await site.apply(workload)
    await site.apply(workload)
    await site.runs(workload)
    assert len(site.starts()) == 1


async def test_it_can_run_here(site: Site) -> None:
    assert site.hosting.problem_of(site.workload()) == ""


async def test_why_it_cannot_run_here_is_a_sentence(site: Site) -> None:
    assert len(site.hosting.problem_of(site.unfit(site.workload()))) > len("it cannot")


# ---------------------------------------------------------------- replacement


async def test_other_settings_replace_nothing_by_themselves_and_then_exactly_one(site: Site) -> None:
    old = await site.started(2)
    new = await site.apply(site.workload(2, flags=("--more",)))
    found = await site.until(lambda found: found.applied == new.fingerprint, "the new settings are applied")
    assert [(each.fingerprint, each.ready) for each in found.instances] == [(old.fingerprint, True)] * 2

    await site.replace(1)

    def replaced(found: Running) -> bool:
        return (
            len(found.instances) == 2
            and found.instances[1].fingerprint == new.fingerprint
            and found.instances[1].ready
        )

    found = await site.until(replaced, "the second one is new")
    assert found.instances[0].fingerprint == old.fingerprint
    assert found.instances[0].ready
    first, second = site.starts(0), site.starts(1)
    assert (len(first), len(second)) == (1, 2)
    assert "--more" in second[1]["arguments"]
    assert alive(first[0])
    assert not alive(second[0])


async def test_a_version_counts_from_the_replacement_on(site: Site) -> None:
    await site.started()
    new = await site.apply(site.workload(flags=("--newer",), version="1.2.4"))
    found = await site.until(lambda found: found.applied == new.fingerprint, "the new version is applied")
    assert found.instances[0].version == "1.2.3"
    await site.replace(0)
    assert (await site.runs(new)).instances[0].version == "1.2.4"


async def test_changed_contents_count_from_the_replacement_on(site: Site) -> None:
    old = await site.started()
    new = await site.apply(site.workload(contents={PKI: {"tls.crt": b"a newer one", "tls.key": KEY}}))
    assert new.fingerprint != old.fingerprint
    await site.until(lambda found: found.applied == new.fingerprint, "the new contents are applied")
    assert len(site.starts()) == 1
    await site.replace(0)
    await site.runs(new)
    assert site.last()["files"]["demo/tls.crt"] == hashlib.sha256(b"a newer one").hexdigest()


async def test_changed_variables_are_no_reason_to_replace(site: Site) -> None:
    workload = await site.started(environment={"EXTRA": "before"})
    again = await site.apply(site.workload(environment={"EXTRA": "after"}))
    assert again.fingerprint == workload.fingerprint
    await site.runs(again)
    assert len(site.starts()) == 1

    await site.replace(0)
    await site.until(lambda found: len(site.starts()) == 2 and found.instances[0].ready, "it is replaced")
    assert site.last()["variables"]["EXTRA"] == "after"


async def test_replacing_what_is_not_there_does_nothing(site: Site) -> None:
    await site.replace(0)
    assert not site.hosting.status(site.identity).exists
    workload = await site.started()
    await site.replace(7)
    await site.runs(workload)
    assert len(site.starts()) == 1


# ---------------------------------------------------------------- size and data


async def test_more_and_fewer_instances(site: Site) -> None:
    await site.started(1)
    await site.started(3)
    assert [len(site.starts(each)) for each in range(3)] == [1, 1, 1]
    await site.started(1)
    assert [alive(site.last(each)) for each in range(3)] == [True, False, False]
    assert len(site.starts(0)) == 1


async def test_the_data_of_an_instance_beyond_the_number_is_deleted(site: Site) -> None:
    for replicas in (2, 1, 2):
        await site.started(replicas)
    assert [each["generation"] for each in site.starts(1)] == [1, 1]


async def test_data_outlives_a_replacement(site: Site) -> None:
    workload = await site.started()
    await site.replace(0)
    await site.until(lambda found: len(site.starts()) == 2, "it is started again")
    await site.runs(workload)
    assert [each["generation"] for each in site.starts()] == [1, 2]


async def test_with_no_replicas_nothing_runs_and_all_data_stays(site: Site) -> None:
    await site.started(2)
    asleep = await site.started(0)
    found = site.hosting.status(site.identity)
    assert (found.instances, found.replicas, found.applied, found.exists) == ((), 0, asleep.fingerprint, True)
    assert not any(alive(site.last(each)) for each in range(2))
    await site.until(lambda found: found.data == {0, 1}, "it says of which instances there is data")
    await site.started(2)
    assert [site.last(each)["generation"] for each in range(2)] == [2, 2]


@pytest.mark.parametrize(
    ("keep_data", "generation"), [pytest.param(True, 2, id="kept"), pytest.param(False, 1, id="deleted too")]
)
async def test_removal_ends_everything(site: Site, keep_data: bool, generation: int) -> None:
    await site.started(2)
    await site.remove(keep_data=keep_data)
    await site.remove(keep_data=keep_data)
    await site.gone()
    assert not any(alive(site.last(each)) for each in range(2))
    await site.remove(keep_data=keep_data)
    left = Running(kept=2, data=frozenset({0, 1})) if keep_data else Running(data=frozenset())
    assert site.hosting.status(site.identity) == left

    await site.started(2)
    assert [site.last(each)["generation"] for each in range(2)] == [generation] * 2


async def test_components_of_one_cluster_do_not_touch_each_other(site: Site) -> None:
    mine = await site.started()
    other = await site.apply(site.workload(2, identity=site.other))
    await site.runs(other)
    await site.remove(site.other, keep_data=False)
    await site.gone(site.other)
    await site.runs(mine)
    assert len(site.starts()) == 1
    assert alive(site.last())


# ---------------------------------------------------------------- health


async def test_an_instance_is_ready_while_its_probe_says_so(site: Site) -> None:
    await site.started()
    site.sicken(0, True)
    found = await site.until(lambda found: not found.instances[0].ready, "it is not ready")
    assert found.instances[0].message
    site.sicken(0, False)
    found = await site.until(lambda found: found.instances[0].ready, "it is ready again")
    assert found.instances[0].message == ""
    assert len(site.starts()) == 1


async def test_why_a_program_ends_again_and_again_is_told(site: Site) -> None:
    await site.apply(site.workload(flags=("--fail",)))
    found = await site.until(lambda found: found.instances and found.instances[0].restarts, "it has ended")
    await site.until(lambda found: "exit code 3" in found.instances[0].message, "its message says how")
    assert not found.instances[0].ready


async def test_what_fails_can_be_mended(site: Site) -> None:
    await site.apply(site.workload(flags=("--fail",)))
    await site.until(lambda found: found.instances and found.instances[0].restarts, "it has ended")
    good = await site.apply(site.workload())
    await site.until(lambda found: found.applied == good.fingerprint, "the mended one is applied")
    await site.replace(0)
    await site.runs(good)


# ---------------------------------------------------------------- restarts of our program


async def test_after_a_restart_of_ours_nothing_is_started_twice(site: Site) -> None:
    workload = await site.started(2)
    before = site.hosting.status(site.identity)
    await site.end()
    assert all(alive(site.last(each)) for each in range(2))
    await site.begin()
    after = await site.runs(workload)
    assert [(each.name, each.fingerprint, each.version, each.since) for each in after.instances] == [
        (each.name, each.fingerprint, each.version, each.since) for each in before.instances
    ]
    await site.apply(workload)
    await site.runs(workload)
    assert [len(site.starts(each)) for each in range(2)] == [1, 1]


async def test_a_removal_is_finished_after_a_restart_of_ours(site: Site) -> None:
    await site.started()
    await site.remove(keep_data=False)
    await site.end()
    await site.begin()
    await site.remove(keep_data=False)
    await site.gone()
    await site.started()
    assert site.last()["generation"] == 1


# ---------------------------------------------------------------- secrets


async def test_what_is_in_secrets_is_told_nowhere(site: Site) -> None:
    secret = KEY.decode()
    with structlog.testing.capture_logs() as log:
        workload = await site.started()
        await site.replace(0)
        await site.until(lambda _found: len(site.starts()) == 2, "it is started again")
    told = [workload, site.hosting.status(site.identity), log]
    noted = [{**each, "files": ()} for each in site.starts()]
    assert not [each for each in (*told, *noted) if secret in repr(each)]


async def test_files_of_secrets_are_for_their_program_alone(site: Site) -> None:
    await site.started()
    assert others_may(Path(site.last()["variables"]["PKI_DIR"])) == {"tls.crt": 0, "tls.key": 0}


def others_may(folder: Path) -> dict[str, int]:
    """What users other than the owner may do with each file of the stub's Secret."""
    return {path.name: path.stat().st_mode & 0o077 for path in folder.rglob("tls.*")}
