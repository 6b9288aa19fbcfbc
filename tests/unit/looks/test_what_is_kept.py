"""What looks at control planes keep from one pass to the next, and what they ask others for."""

from datetime import timedelta
from typing import Any

from kubewright.api.controlplane.names import Component
from kubewright.api.core import SECRET
from kubewright.controlplanes.component.policies import API_SERVER, CONTROLLER_MANAGER, ETCD

from . import planes
from .of_components import CONTENT, KNOWN, THREE, WHOLE, Components, Host, instance, runs
from .of_plane_certificates import Secrets, a
from .planes import a_component, a_config_map, a_plane, a_secret, component, key

FRONT = component(Component.API_SERVER)
CA, AUDIT = (f"GET /api/v1/namespaces/n/{path}" for path in ("secrets/c-ca", "configmaps/audit"))


async def test_a_secret_with_a_label_is_read_once_for_each_version():
    secrets = Secrets()
    await secrets.put(*a("c-ca", value=b"1"))
    assert [await secrets.content("c-ca") for _ in range(2)] == [{"value": b"1"}] * 2
    assert secrets.reads == 1
    await secrets.put(*a("c-ca", value=b"2"))
    assert [await secrets.content("c-ca") for _ in range(2)] == [{"value": b"2"}] * 2
    assert secrets.reads == 2


async def test_a_secret_without_a_label_or_that_is_not_there_is_read_in_each_pass():
    secrets = Secrets()
    secrets.lay(*a("users", {}, value=b"1"))
    assert [await secrets.content("users") for _ in range(2)] == [{"value": b"1"}] * 2
    assert [await secrets.content("none") for _ in range(2)] == [None] * 2
    assert secrets.reads == 4


async def test_the_content_of_a_secret_goes_with_it():
    secrets = Secrets()
    await secrets.put(*a("c-ca", value=b"1"))
    await secrets.content("c-ca")
    await secrets.remove(SECRET, key("c-ca"))
    assert await secrets.content("c-ca") is None


async def test_only_the_secrets_that_are_labelled_with_a_cluster_in_a_namespace_are_its():
    secrets = Secrets()
    for name, labels in (
        ("c-ca", planes.OF_CLUSTER),
        ("d-ca", {planes.CLUSTER_LABEL: "d"}),
        ("more", {"a": "b"}),
    ):
        await secrets.put(*a(name, labels, value=b"1"))
    assert secrets.reader.labelled(planes.NS, "c") == ["c-ca"]
    assert secrets.reader.labelled(planes.NS, "d") == ["d-ca"]
    assert secrets.reader.labelled("elsewhere", "c") == []


async def test_a_secret_is_read_once_for_each_version_and_a_config_map_in_each_look():
    shelf = Components(API_SERVER, Host(knows=KNOWN))
    await shelf.holds(*WHOLE)
    for _ in range(2):
        await shelf.looker.look(FRONT)
    assert (shelf.asked.count(CA), shelf.asked.count(AUDIT)) == (1, 2)
    await shelf.put(*a_secret("c-ca", **{"tls.crt": "NEW"}))
    assert await _ca(shelf) == {"tls.crt": b"NEW"}
    assert (await _ca(shelf), shelf.asked.count(CA)) == ({"tls.crt": b"NEW"}, 2)


async def test_a_secret_that_is_newer_than_the_watch_shows_is_not_kept():
    shelf = Components(API_SERVER, Host(knows=KNOWN))
    await shelf.holds(*WHOLE)
    shelf.lay(*a_secret("c-ca", **{"tls.crt": "NEW"}))
    assert [await _ca(shelf) for _ in range(2)] == [{"tls.crt": b"NEW"}] * 2
    assert shelf.asked.count(CA) == 2


async def test_a_secret_without_a_label_is_read_in_each_look():
    shelf = Components(API_SERVER, Host(knows=KNOWN))
    await shelf.holds(*(each for each in WHOLE if each not in CONTENT), CONTENT[1])
    shelf.lay(*a_secret("c-ca", labels={}, **{"tls.crt": "MINE"}))
    assert [await _ca(shelf) for _ in range(2)] == [{"tls.crt": b"MINE"}] * 2
    assert shelf.asked.count(CA) == 2


async def test_a_secret_that_is_forgotten_is_read_again_and_no_other():
    shelf = Components(API_SERVER, Host(knows=KNOWN))
    await shelf.holds(*WHOLE)
    for forgotten in ("c-ca", "other"):
        await shelf.looker.look(FRONT)
        shelf.looker.forget_secret(key(forgotten))
    await shelf.looker.look(FRONT)
    assert shelf.asked.count(CA) == 2


async def test_a_secret_and_a_config_map_of_one_name_are_two():
    shelf = Components(CONTROLLER_MANAGER, Host())
    alike = a_secret("alike", of="Secret"), a_config_map("alike", of="ConfigMap")
    await shelf.holds(a_plane(), *alike)
    for _ in range(2):
        workload = (await shelf.looker.look(component(Component.CONTROLLER_MANAGER))).workload
        assert workload is not None
        assert (workload.contents, workload.config) == (
            {"alike": {"of": b"Secret"}},
            {"alike": {"of": b"ConfigMap"}},
        )
    assert sum("secrets/alike" in each for each in shelf.asked) == 1


async def test_of_an_etcd_the_addresses_of_all_members_that_it_may_ever_have_are_asked_for():
    etcd, server = Components(ETCD, Host(knows=THREE)), Components(API_SERVER, Host(knows=KNOWN))
    assert isinstance(etcd.host, Host)
    assert isinstance(server.host, Host)
    await etcd.holds(a_plane())
    await server.holds(a_plane())
    await etcd.looker.look(component(Component.ETCD, replicas=3))
    await server.looker.look(component(Component.API_SERVER, replicas=2))
    assert etcd.host.asked_for | server.host.asked_for == {"c-etcd": 7, "c-apiserver": 2}


async def test_the_keeper_learns_which_secrets_the_volumes_name():
    shelf = Components(API_SERVER, Host(knows=KNOWN))
    await shelf.holds(*WHOLE)
    seen = await shelf.looker.look(FRONT)
    [asked] = shelf.keeper.asked
    assert (asked.policy, asked.component, asked.addresses) == (API_SERVER, FRONT, KNOWN)
    assert (asked.family, asked.identity) == (seen.family, seen.identity)
    assert asked.mounted == {"c-ca", "extra"}


async def test_the_keeper_learns_of_no_secret_while_the_templates_cannot_be_filled_in():
    shelf = Components(API_SERVER, Host(knows=KNOWN))
    await shelf.holds(a_plane(), *CONTENT)
    await shelf.looker.look(FRONT)
    assert [each.mounted for each in shelf.keeper.asked] == [frozenset()]


async def test_when_the_deletion_of_a_component_began_is_forgotten_with_it():
    shelf = Components(ETCD, Host(runs(instance(Component.ETCD))))
    server, going = a_component(Component.API_SERVER), component(Component.ETCD, of=planes.DELETED)
    await shelf.holds(a_plane(), server)
    await shelf.looker.look(component(Component.ETCD))
    shelf.clock.passed = 30
    await shelf.put(*a_component(Component.API_SERVER, of=planes.DELETED))
    await shelf.looker.look(going)
    shelf.clock.passed = 90
    assert (await shelf.looker.look(going)).deleting_for == timedelta(minutes=1)
    shelf.looker.forget(key("e"))
    assert (await shelf.looker.look(going)).deleting_for == timedelta(minutes=2, seconds=30)


async def test_since_when_a_component_is_to_have_no_instance_is_forgotten_with_it():
    shelf = Components(ETCD, Host(runs(instance(Component.ETCD))))
    stopped = component(Component.ETCD, replicas=0)
    await shelf.looker.look(stopped)
    shelf.clock.passed = 60
    shelf.looker.forget(key("none"))
    assert (await shelf.looker.look(stopped)).none_for == timedelta()
    await shelf.holds(a_plane())
    await shelf.looker.look(stopped)
    shelf.clock.passed = 120
    assert (await shelf.looker.look(stopped)).none_for == timedelta(minutes=1)
    shelf.looker.forget(key("e"))
    assert (await shelf.looker.look(stopped)).none_for == timedelta()


async def _ca(shelf: Components) -> Any:
    workload = (await shelf.looker.look(FRONT)).workload
    return workload.contents["c-ca"] if workload is not None else None
