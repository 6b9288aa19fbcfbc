"""What a look at a KubeadmConfig keeps between passes, and when it reads again."""

from msgspec import structs

from kubewright.api.core import SECRET
from kubewright.bootstrap.seen import DataSeen
from kubewright.pki.credentials import Purpose
from kubewright.pki.keys import KeyPair

from ..looks.of_kubeadm_configs import (
    CA,
    LATER_PAIR,
    NS,
    OTHER_TOKEN,
    PAIR,
    TOKEN,
    Provider,
    authority,
    config,
    data_for,
    joins_by,
    machine,
)

WORKER = config(join_configuration=joins_by(TOKEN))
FIRST, LATER = KeyPair(PAIR.certificate), KeyPair(LATER_PAIR.certificate)
READS_CA, READS_DATA = (f"GET /api/v1/namespaces/{NS}/secrets/{name}" for name in (CA, "m"))


async def test_a_clusters_authority_is_read_once_for_each_version():
    provider = Provider()
    await provider.has()
    await provider.put(SECRET, authority(PAIR))
    seen = [(await provider.looker.look(WORKER)).pairs for _ in range(3)]
    assert seen == [{Purpose.CA: FIRST}] * 3
    assert provider.asked == [READS_CA]
    await provider.put(SECRET, authority(LATER_PAIR))
    assert (await provider.looker.look(WORKER)).pairs == {Purpose.CA: LATER}
    assert provider.asked == [READS_CA] * 2


async def test_an_authority_of_a_cluster_that_was_made_anew_is_read_anew():
    provider = Provider()
    await provider.has()
    await provider.put(SECRET, authority(PAIR))
    await provider.looker.look(WORKER)
    provider.looker.forget_cluster(provider.key("c"))
    await provider.looker.look(WORKER)
    assert provider.asked == [READS_CA] * 2


async def test_an_authority_that_no_watch_shows_is_read_at_each_look():
    provider = Provider()
    await provider.has()
    provider.lay(SECRET, authority(PAIR))
    assert (await provider.looker.look(WORKER)).pairs == {Purpose.CA: FIRST}
    provider.lay(SECRET, authority(LATER_PAIR))
    assert (await provider.looker.look(WORKER)).pairs == {Purpose.CA: LATER}


async def test_a_key_that_a_worker_does_not_get_is_judged_at_no_look():
    """It was judged at the first look, and no more once the authority was kept."""
    provider = Provider()
    await provider.has()
    await provider.put(SECRET, authority(KeyPair(PAIR.certificate, LATER_PAIR.key)))
    seen = [(await provider.looker.look(WORKER)).pairs for _ in range(2)]
    assert seen == [{Purpose.CA: FIRST}] * 2


async def test_a_pair_that_was_made_is_used_only_while_its_secret_has_the_version_that_was_made():
    provider = Provider()
    await provider.has(of=machine(control_plane=True))
    await provider.put(SECRET, authority(PAIR))
    provider.looker.made(SECRET.from_plain(provider.at(SECRET, provider.key(CA))))
    assert (await provider.looker.look(WORKER)).pairs[Purpose.CA] == PAIR
    assert READS_CA not in provider.asked
    provider.looker.made(SECRET.from_plain(provider.at(SECRET, provider.key(CA))))
    await provider.put(SECRET, authority(LATER_PAIR))
    assert (await provider.looker.look(WORKER)).pairs[Purpose.CA] == LATER_PAIR


async def test_data_are_read_once_in_each_version():
    provider = Provider()
    await provider.has(of=machine(data="m"))
    await provider.put(SECRET, data_for(TOKEN))
    ready = config(ready=True)
    assert [(await provider.looker.look(ready)).data for _ in range(2)] == [DataSeen(True, TOKEN)] * 2
    assert provider.asked == [READS_DATA]
    await provider.put(SECRET, data_for(OTHER_TOKEN))
    assert (await provider.looker.look(ready)).data == DataSeen(True, OTHER_TOKEN)
    emptied = structs.replace(data_for(TOKEN), data={})
    await provider.put(SECRET, emptied)
    assert (await provider.looker.look(ready)).data == DataSeen(False)


async def test_the_token_of_data_that_are_gone_stays_known():
    """Data that are made again must not bring a second token for one machine."""
    provider = Provider()
    await provider.has(of=machine(data="m"))
    await provider.put(SECRET, data_for(TOKEN))
    await provider.looker.look(config(ready=True))
    await provider.client.delete(SECRET, provider.key("m"))
    assert (await provider.looker.look(config(ready=True))).data == DataSeen(False, TOKEN)
