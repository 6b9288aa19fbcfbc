"""A kubeconfig of a simulated cluster gets as far in process as at a socket: the same cases, without sockets."""

import pytest

from kubewright.api.core import NODE, SECRET
from kubewright.apiserver.http.kubeconfig import render
from kubewright.compose.api_servers import LIFETIME, Planes
from kubewright.compose.plane_transports import PlaneTransports
from kubewright.kube.client import Client
from kubewright.kube.config import inline_access
from kubewright.kube.errors import ConnectFailed
from kubewright.kube.sockets import Sockets
from kubewright.pki.certificates import Identity, new_client
from kubewright.pki.clusters import new_cluster_authority
from kubewright.pki.keys import Algorithm
from kubewright.providers.sim.tls_bootstrap import PlaneRequest
from kubewright.testing.clocks import LoopClock
from kubewright.wire.errors import Forbidden, Unauthorized
from kubewright.wire.http import User

ADMIN = User("kubernetes-admin", ("system:masters",))
GUEST = User("guest", ())


class Site:
    """Control planes without sockets, one of which runs, and the kubeconfigs that a user might have."""

    def __init__(self) -> None:
        self.clock = LoopClock()
        self.planes = Planes(self.clock)
        self.ours, self.other = (new_cluster_authority(self.clock.now(), Algorithm.EC) for _ in range(2))
        self.address = self.planes.reserve("demo")

    async def begin(self) -> None:
        await self.planes.begin(PlaneRequest(self.address, self.ours.certificate, self.ours.key))

    def client(self, trusted, signer, user=ADMIN, address="") -> Client:
        identity = new_client(
            Identity.from_pem(signer.certificate + signer.key), user, self.clock.now(), LIFETIME
        )
        access = inline_access(render(f"https://{address or self.address}", trusted.certificate, identity))
        return Client(PlaneTransports(self.planes)(access, self.clock), self.clock)


async def test_the_clusters_own_authority_lets_in_as_the_user_of_the_certificate() -> None:
    site = Site()
    await site.begin()

    assert await site.client(site.ours, site.ours).list(NODE) == []
    with pytest.raises(Forbidden, match="guest"):
        await site.client(site.ours, site.ours, GUEST).list(SECRET)
    await site.planes.close()


async def test_another_authority_does_not() -> None:
    site = Site()
    await site.begin()
    for trusted, signer in ((site.other, site.ours), (site.ours, site.other)):
        with pytest.raises(ConnectFailed):
            await site.client(trusted, signer).list(NODE)
    await site.planes.close()


async def test_a_control_plane_that_is_away_does_not_answer_until_it_is_back() -> None:
    site = Site()
    client = site.client(site.ours, site.ours)
    with pytest.raises(ConnectFailed, match="no API server answers"):
        await client.list(NODE)
    await site.begin()
    assert await client.list(NODE) == []
    await site.planes.pause(site.address)
    with pytest.raises(ConnectFailed):
        await client.list(NODE)
    await site.planes.close()


async def test_a_token_that_is_nobodys_is_refused() -> None:
    site = Site()
    await site.begin()
    ca = render(f"https://{site.address}", site.ours.certificate, Identity(b"x", b"y"))
    text = (
        ca.decode().split("users:")[0]
        + "users:\n- name: kubewright\n  user: {token: abcdef.0123456789abcdef}\n"
    )
    access = inline_access(text.encode())
    with pytest.raises(Unauthorized):
        await Client(PlaneTransports(site.planes)(access, site.clock), site.clock).list(NODE)
    await site.planes.close()


async def test_all_other_clusters_are_reached_by_sockets() -> None:
    site = Site()
    transport = site.client(site.ours, site.ours, address="10.0.0.1:6443").transport

    assert isinstance(transport, Sockets)
    await transport.close()
