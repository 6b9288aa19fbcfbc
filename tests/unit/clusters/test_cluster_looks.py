"""What a look at a Cluster keeps of its Secrets, and when it reads them again."""

from kubewright.api.core import SECRET
from kubewright.base import delays
from kubewright.wire.gvk import Key

from ..looks.of_clusters import ENDPOINT, KEY, LATER_PAIR, PAIR, Clusters, authority, cluster, kubeconfig

OF = cluster(**ENDPOINT)
CA, CONFIG = (f"GET /api/v1/namespaces/n/secrets/{name}" for name in ("c-ca", "c-kubeconfig"))
OLD, NEW = PAIR, LATER_PAIR


async def test_both_secrets_are_read_once_in_each_version():
    it = Clusters()
    await it.put(SECRET, authority(PAIR), kubeconfig("a"))
    for _ in range(3):
        seen = await it.looker.look(OF)
        assert (seen.authority.pair, seen.kubeconfig.kubeconfig.server) == (OLD, "https://a:6443")
    assert it.asked == [CA, CONFIG]
    await it.put(SECRET, authority(LATER_PAIR))
    assert (await it.looker.look(OF)).authority.pair == NEW
    await it.put(SECRET, kubeconfig("b"))
    assert (await it.looker.look(OF)).kubeconfig.kubeconfig.server == "https://b:6443"
    assert it.asked == [CA, CONFIG, CA, CONFIG]


async def test_a_kubeconfig_that_was_made_is_known_until_another_client_writes_it():
    it = Clusters()
    await it.put(SECRET, authority(PAIR), kubeconfig("a"))
    it.looker.made(KEY, SECRET.from_plain(it.at(SECRET, Key("n", "c-kubeconfig"))))
    assert (await it.looker.look(OF)).kubeconfig.kubeconfig.server == "https://a:6443"
    assert it.asked == [CA]
    await it.put(SECRET, kubeconfig("b"))
    assert (await it.looker.look(OF)).kubeconfig.kubeconfig.server == "https://b:6443"


async def test_a_secret_that_no_watch_shows_is_asked_for_each_half_minute_while_it_is_not_there():
    it = Clusters()
    assert (await it.looker.look(OF)).authority is None
    asked = len(it.asked)
    it.clock.passed = delays.UNHEARD.total_seconds() - 1
    await it.looker.look(OF)
    assert len(it.asked) == asked
    it.lay(SECRET, authority(PAIR))
    it.clock.passed += 1
    assert (await it.looker.look(OF)).authority.pair == OLD


async def test_a_kubeconfig_that_no_watch_shows_is_a_user_s_once_its_name_was_found_taken():
    it = Clusters()
    await it.put(SECRET, authority(PAIR))
    it.lay(SECRET, kubeconfig("mine"))
    assert (await it.looker.look(OF)).kubeconfig is None
    it.looker.taken(KEY)
    assert (await it.looker.look(OF)).kubeconfig.kubeconfig.server == "https://mine:6443"
    await it.client.delete(SECRET, Key("n", "c-kubeconfig"))
    assert (await it.looker.look(OF)).kubeconfig is None


async def test_of_a_cluster_that_is_gone_nothing_is_kept():
    it = Clusters()
    await it.put(SECRET, authority(PAIR), kubeconfig("a"))
    await it.looker.look(OF)
    it.looker.forget(KEY)
    await it.looker.look(OF)
    assert it.asked == [CA, CONFIG] * 2
