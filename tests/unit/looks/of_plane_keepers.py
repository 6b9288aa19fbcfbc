"""Scenes of the certificates of a component: its Secrets, and what its keeper must say of them."""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

from kubewright.api.controlplane.names import Component, Reason
from kubewright.api.core import SECRET
from kubewright.controlplanes.certificates.keeper import SecretKeeper
from kubewright.controlplanes.component.look import CertificateRequest
from kubewright.controlplanes.component.policies import API_SERVER, CONTROLLER_MANAGER, ETCD, Policy
from kubewright.controlplanes.component.seen import Certificates, Rotating, Seen
from kubewright.controlplanes.hosting.contract import WorkloadAddresses
from kubewright.pki.keys import Algorithm
from kubewright.testing.looks import Look, Scene

from . import planes
from .of_components import identity
from .planes import Planes, There, a_cluster, a_component, a_plane, component, key

STORE, _, MANAGER = Component


class Keepers(Planes):
    """A control plane on a shelf, and the keeper of the Secrets of its components."""

    def __init__(self) -> None:
        super().__init__()
        self.keeper = SecretKeeper(self.caches, Algorithm.EC)

    def request(self, policy: Policy, *mounted: str, before: str = "") -> CertificateRequest:
        which = policy.component
        found = component(which)
        family = self.in_caches.family_around(found.metadata)
        assert family is not None
        named = identity(which, before or family.name)
        return CertificateRequest(policy, found, family, named, WorkloadAddresses(), frozenset(mounted))

    async def make(self, policy: Policy, *mounted: str, until: str = "") -> None:
        """Look, and make what is due, until nothing is, or something is for this reason."""
        while True:
            asked = self.request(policy, *mounted)
            found = await self.keeper.look(asked)
            if not found.steps or (until and until in found.steps[0].steps[0].because):
                return
            seen = Seen(policy, asked.component, self.clock.now(), certificates=found)
            await self.keeper.perform(seen)


OLD = timedelta(days=3400)
ENDPOINT = {"host": "127.0.0.9", "port": 6443}
MOUNTED = {ETCD: ("c-etcd-server",), API_SERVER: ("c-apiserver",), CONTROLLER_MANAGER: ("c-x-signer",)}


class Due:
    """Equals the steps that make these Secrets of a cluster, each with its reason, and what it is a copy of."""

    def __init__(self, cluster: str = "", **because: str) -> None:
        self.cluster = cluster
        self.because = {name.replace("_", "-"): told for name, told in because.items()}

    def __eq__(self, other: object) -> bool:
        found = other if isinstance(other, tuple) else ()
        steps = {each.wanted.secret: f"{each.because}{each.copies}" for work in found for each in work.steps}
        places = {work.destination.cluster for work in found}
        return steps == self.because and places <= {self.cluster}

    def __hash__(self) -> int:
        return hash(self.cluster)

    def __repr__(self) -> str:
        return f"{self.cluster}: {self.because}"


def absent(*names: str) -> dict[str, str]:
    return {name: f"there is no Secret {name.replace('_', '-')}" for name in names}


def scene(
    policy: Policy,
    *there: There,
    mounted: tuple[str, ...] = (),
    before: Callable[[Keepers], Awaitable[object]] | None = None,
    named: str = "",
    at: timedelta = timedelta(),
) -> Callable[[], Awaitable[Certificates]]:
    """A look for a component; ``named``: the cluster name that its workload has."""

    async def look() -> Certificates:
        keepers = Keepers()
        await keepers.holds(*there)
        if before is not None:
            await before(keepers)
        keepers.clock.passed = at.total_seconds()
        return await keepers.keeper.look(keepers.request(policy, *mounted, before=named))

    return look


def made(*policies: Policy, then: Callable[[Keepers], Awaitable[object]] | None = None) -> Any:
    """All Secrets of these components, each of which mounts some; ``then`` is done after that."""

    async def make(keepers: Keepers) -> None:
        for policy in policies:
            await keepers.make(policy, *MOUNTED[policy])
        if then is not None:
            await then(keepers)

    return make


async def _users(keepers: Keepers) -> None:
    """The authority gets an owner of another kind, and so is a user's."""
    owner = planes.owner("v1", "ConfigMap", "x")
    await keepers.change(SECRET, key("c-ca"), {"metadata": owner})


async def _broken(keepers: Keepers) -> None:
    await _users(keepers)
    await keepers.change(SECRET, key("c-ca"), {"data": {"tls.crt": "eA=="}})


async def _turn(keepers: Keepers) -> None:
    """Make what is due now, once."""
    asked = keepers.request(API_SERVER, *MOUNTED[API_SERVER])
    found = await keepers.keeper.look(asked)
    await keepers.keeper.perform(Seen(API_SERVER, asked.component, keepers.clock.now(), certificates=found))


async def _begun(keepers: Keepers) -> None:
    """An hour later the rotation begins: there are two certificates to trust."""
    keepers.clock.passed = 3600
    await _turn(keepers)


async def _given(keepers: Keepers) -> None:
    """And kubeconfigs have both."""
    await _begun(keepers)
    await _turn(keepers)


async def _signs(keepers: Keepers) -> None:
    """And the new ones sign."""
    await _given(keepers)
    await _turn(keepers)


async def _aged(keepers: Keepers) -> None:
    """It is old, and all that is due was made since."""
    keepers.clock.passed = OLD.total_seconds()
    await keepers.make(API_SERVER, *MOUNTED[API_SERVER])


async def _given_to_foreign(keepers: Keepers) -> None:
    """And another kubeconfig, for the controller manager of another program, has both, too."""
    await _begun(keepers)
    await keepers.make(API_SERVER, *MOUNTED[API_SERVER], until="both are trusted")


async def _mine_in_use(keepers: Keepers) -> None:
    """A user's Secret without a label has the certificate that the API server presents."""
    await _given(keepers)
    there = keepers.at(SECRET, key("c-apiserver"))
    meta = {"name": "mine", "namespace": planes.NS}
    keepers.lay(SECRET, SECRET.from_plain({"metadata": meta, "data": there["data"]}))


async def _renamed(keepers: Keepers) -> None:
    """Its Secrets were made before a Cluster owned it."""
    before = Keepers()
    await before.holds(a_plane(of={}))
    await before.make(ETCD)
    for path, each in before.objects.items():
        if "/secrets/" in path:
            await keepers.put(SECRET, SECRET.from_plain(each))


HOUR = timedelta(hours=1)
LATER = "2030-01-01T01:00:00Z"
PLANE = a_plane(controlPlaneEndpoint=ENDPOINT)
ROTATES = a_plane(controlPlaneEndpoint=ENDPOINT, certificateAuthorities={"rotateAfter": LATER})
STOPS = a_plane(
    controlPlaneEndpoint=ENDPOINT, certificateAuthorities={"rotateAfter": LATER, "stopBefore": "Dropping"}
)
SIGN = "both are trusted: the new one signs"
STOPPED = "it stops before Dropping, as spec.certificateAuthorities.stopBefore says or leaves it"
BEFORE_SIGNING = "it stops before Signing, as spec.certificateAuthorities.stopBefore says or leaves it"


def given(secret: str, waits: str = "") -> Rotating:
    told = f"Secret {secret}: the old authority signs, and components are given both"
    return Rotating(Reason.TRUSTING_BOTH, f"{told}; {waits}" if waits else told)


def signs(secret: str, waits: str) -> Rotating:
    told = f"Secret {secret}: the new authority signs, and the old one is still trusted"
    return Rotating(Reason.SIGNING_WITH_NEW, f"{told}; {waits}")


UNREADABLE = "Secret c-ca has a tls.crt that is neither a certificate nor a public key in PEM"
DUE_SINCE = f"it was made before {LATER}: a new one is trusted beside it"
LOOK = Look(
    "controlplanes.certificates.keeper",
    Certificates,
    (
        Scene(
            "an API server of which nothing is there, without an endpoint",
            scene(API_SERVER, a_plane()),
            {"steps": Due("c", **absent("c_ca", "c_proxy", "c_sa")), "waiting": "", "problem": ""}
            | {"wake": None, "rotating": ()},
        ),
        Scene(
            "with an endpoint there is a kubeconfig, and what volumes mount",
            scene(API_SERVER, PLANE, mounted=("c-apiserver", "c-apiserver-etcd-client")),
            {
                "steps": Due("c", **absent("c_ca", "c_proxy", "c_sa", "c_apiserver", "c_kubeconfig")),
                "waiting": "waits for Secret c-etcd",
            },
        ),
        Scene(
            "an endpoint without a port is none",
            scene(API_SERVER, a_plane(controlPlaneEndpoint={"host": "127.0.0.9"})),
            {"steps": Due("c", **absent("c_ca", "c_proxy", "c_sa"))},
        ),
        Scene(
            "all of it was made",
            scene(API_SERVER, PLANE, mounted=MOUNTED[API_SERVER], before=made(API_SERVER), at=HOUR),
            {"steps": (), "waiting": "", "problem": "", "wake": timedelta(days=182, seconds=41400) - HOUR},
        ),
        Scene(
            "half of the life of a kubeconfig is over",
            scene(API_SERVER, PLANE, before=made(API_SERVER), at=timedelta(days=183)),
            {"steps": Due("c", c_kubeconfig="half of the kubeconfig's life is over")},
        ),
        Scene(
            "the authority is a user's, and cannot be read",
            scene(API_SERVER, PLANE, before=made(API_SERVER, then=_broken)),
            {"problem": f"{UNREADABLE}; the cluster has another certificate authority now, and {UNREADABLE}"},
        ),
        Scene(
            "a foreign controller manager gets a kubeconfig from the API server's",
            scene(API_SERVER, PLANE, a_component(MANAGER, of=planes.FOREIGN)),
            {
                "steps": Due(
                    "c",
                    **absent("c_ca", "c_proxy", "c_sa", "c_kubeconfig", "c_controller_manager_kubeconfig"),
                )
            },
        ),
        Scene(
            "a controller manager of ours makes its own",
            scene(API_SERVER, PLANE, a_component(MANAGER), before=made(API_SERVER)),
            {"steps": ()},
        ),
        Scene(
            "a control plane that has got a Cluster keeps its authority and its keys",
            scene(ETCD, PLANE, before=_renamed, named="p"),
            {"steps": Due("c", c_etcd="there is no Secret c-etcdp-etcd")},
        ),
        Scene(
            "the authorities are to be replaced in an hour",
            scene(API_SERVER, ROTATES, before=made(API_SERVER)),
            {"steps": (), "wake": HOUR, "rotating": ()},
        ),
        Scene(
            "the authorities are to be replaced now",
            scene(API_SERVER, ROTATES, before=made(API_SERVER), at=HOUR),
            {"steps": Due("c", c_ca=DUE_SINCE, c_proxy=DUE_SINCE), "rotating": ()},
        ),
        Scene(
            "an authority that is a user's is not replaced from here",
            scene(API_SERVER, ROTATES, before=made(API_SERVER, then=_users), at=HOUR),
            {
                "steps": Due("c", c_proxy=DUE_SINCE),
                "rotating": (
                    Rotating(
                        Reason.NOT_OURS,
                        f"Secret c-ca is not ours to write: it was made before {LATER}, and its owner has to "
                        "replace it",
                    ),
                ),
            },
        ),
        Scene(
            "the authorities are being replaced, and the kubeconfig does not trust both yet",
            scene(API_SERVER, ROTATES, before=made(API_SERVER, then=_begun), at=HOUR),
            {
                "steps": Due("c", c_kubeconfig="the cluster has another certificate authority now"),
                "rotating": (
                    given("c-ca", "waits until the kubeconfig in Secret c-kubeconfig trusts both"),
                    given("c-proxy"),
                ),
            },
        ),
        Scene(
            "everything trusts both: the new ones are to sign",
            scene(API_SERVER, ROTATES, before=made(API_SERVER, then=_given), at=HOUR),
            {
                "steps": Due("c", c_ca=SIGN, c_proxy=SIGN),
                "rotating": (given("c-ca"), given("c-proxy")),
            },
        ),
        Scene(
            "a component still runs with the old one alone",
            scene(
                API_SERVER,
                ROTATES,
                a_component(MANAGER, {"certificates": {"c-ca": "old"}}),
                before=made(API_SERVER, then=_given),
                at=HOUR,
            ),
            {
                "steps": Due("c", c_proxy=SIGN),
                "rotating": (
                    given(
                        "c-ca",
                        "waits until all instances of NestedControllerManager m run with what is in Secret "
                        "c-ca now",
                    ),
                    given("c-proxy"),
                ),
            },
        ),
        Scene(
            "a component of another program does not say with what it runs",
            scene(
                API_SERVER,
                ROTATES,
                a_component(MANAGER, of=planes.FOREIGN),
                a_component(STORE, of=planes.FOREIGN),
                before=made(API_SERVER, then=_given_to_foreign),
                at=HOUR,
            ),
            {
                "rotating": (
                    given(
                        "c-ca",
                        "waits for NestedControllerManager m: another program manages it, and its "
                        "status.certificates does not say c-ca",
                    ),
                    given("c-proxy"),
                ),
            },
        ),
        Scene(
            "what volumes mount is in use, whichever label it has",
            scene(
                API_SERVER,
                ROTATES,
                a_component(MANAGER, {"certificates": {"mine": "x"}}),
                before=made(API_SERVER, then=_mine_in_use),
                at=HOUR,
            ),
            {
                "rotating": (
                    given(
                        "c-ca",
                        "waits until all instances of NestedControllerManager m run with what is in Secret "
                        "mine now",
                    ),
                    given("c-proxy"),
                ),
            },
        ),
        Scene(
            "the new ones sign, and a user is to look before the old ones go",
            scene(
                API_SERVER,
                STOPS,
                mounted=MOUNTED[API_SERVER],
                before=made(API_SERVER, then=_signs),
                at=HOUR,
            ),
            {
                "steps": Due(
                    "c",
                    c_apiserver="Secret c-apiserver was signed by another authority than Secret c-ca",
                    c_kubeconfig="the cluster has another certificate authority now",
                ),
                "rotating": (
                    signs("c-ca", "waits until what the old one signed is replaced in Secret c-apiserver"),
                    signs("c-proxy", STOPPED),
                ),
            },
        ),
        Scene(
            "authorities of a Cluster that are due by their age stop there, too",
            scene(
                API_SERVER,
                PLANE,
                a_cluster(),
                mounted=MOUNTED[API_SERVER],
                before=made(API_SERVER, then=_aged),
                at=OLD,
            ),
            {
                "steps": (),
                "rotating": (given("c-ca", BEFORE_SIGNING), given("c-proxy", BEFORE_SIGNING)),
            },
        ),
        Scene(
            "a control plane of a Cluster stops before the new ones sign, unless it says otherwise",
            scene(
                API_SERVER,
                ROTATES,
                a_cluster(),
                before=made(API_SERVER, then=_given),
                at=HOUR,
            ),
            {
                "steps": (),
                "rotating": (given("c-ca", BEFORE_SIGNING), given("c-proxy", BEFORE_SIGNING)),
            },
        ),
    ),
)
