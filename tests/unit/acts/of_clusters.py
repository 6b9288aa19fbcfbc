"""Scenes of Clusters: what their act writes, which kubeconfig it makes, and what it deletes."""

from collections.abc import Callable
from typing import Any

from msgspec import structs

from kubewright.api.cluster.names import CLUSTER_FINALIZER
from kubewright.api.cluster.v1beta1 import CLUSTER, MACHINE, MACHINE_SET, ApiEndpoint
from kubewright.api.core import SECRET
from kubewright.base.errors import KubewrightError
from kubewright.base.plan import Plan
from kubewright.clusters.cluster import act, seen
from kubewright.clusters.external.object import External, look_up
from kubewright.kube.errors import Silent
from kubewright.runtime.credentials.contents import read_secret
from kubewright.runtime.kernel import Outcome
from kubewright.testing.acts import NOT_SERVED, Act, Happened, Scene, Such, Told, happened, laid
from kubewright.testing.clocks import BEGIN
from kubewright.testing.looks import Shelf, Write
from kubewright.wire.errors import Conflict, Forbidden, Invalid, NotFound

from ..looks.of_cluster_machines import INFRA, PLANE, Providers, machine, of_revision
from ..looks.of_clusters import ENDPOINT, KEY, Clusters, authority, cluster, kubeconfig
from ..looks.of_kubeadm_configs import PAIR
from .of_infra_machines import Nothing

CORE = "/apis/cluster.x-k8s.io/v1beta1/namespaces/n"
CLUSTER_PATH, MACHINES, SETS = (f"{CORE}/{each}" for each in ("clusters/c", "machines", "machinesets"))
FOOS = "/apis/infrastructure.cluster.x-k8s.io/v1beta1/namespaces/n/foos"
SECRETS = "/api/v1/namespaces/n/secrets"
SEEN = {"uid": "c", "resourceVersion": "101"}
OTHERS = "example.com/mine"
OWNED = {"metadata": {"labels": {"cluster.x-k8s.io/cluster-name": "c"}, "uid": "foo", "resourceVersion": "1"}}
FOO, PLANE_OBJECT = (f"{FOOS}/{each}" for each in ("m", "p"))
NEW_HOST = ApiEndpoint(host="new", port=6443)


class Stage(Clusters):
    """The management cluster; ``saw``: what a look after the pass has seen."""

    saw: seen.Seen | None = None


def external(ref: Any, uid: str = "foo") -> External:
    return look_up(Providers({ref.kind: {"metadata": {"name": ref.name, "uid": uid}}}), KEY, ref)


def child(kind: Any, name: str, uid: str = "") -> seen.Child:
    return seen.Child(kind, kind.resource.kind, name, uid or name)


def old_kubeconfig(shelf: Shelf) -> seen.Step:
    held = read_secret(SECRET.from_plain(shelf.objects[f"{SECRETS}/c-kubeconfig"]))
    return seen.WriteKubeconfig(NEW_HOST, read_secret(authority(PAIR)), held)


def new_kubeconfig(_shelf: Shelf) -> seen.Step:
    return seen.WriteKubeconfig(ApiEndpoint(host="h", port=6443), read_secret(authority(PAIR)))


def doing(
    *what: seen.Step | Callable[[Shelf], seen.Step],
    finalizers: tuple[str, ...] = (),
    there: tuple[tuple[Any, Any], ...] = (),
    refused: dict[str, KubewrightError] | None = None,
    overtaken: bool = False,
):
    """``there``: what else stands on the server. ``overtaken``: another client has written the Cluster since."""

    async def act_() -> tuple[Shelf, Happened]:
        shelf, told = Stage(), Told()
        of = laid(shelf, CLUSTER, cluster({"finalizers": list(finalizers)}, **ENDPOINT))
        for ref in (INFRA, PLANE):
            shelf.objects[f"{FOOS}/{ref.name}"] = {
                "metadata": {"name": ref.name, "uid": "foo", "resourceVersion": "1"}
            }
        for kind, each in there:
            shelf.lay(kind, each)
        if overtaken:
            shelf.lay(CLUSTER, of)
        steps = tuple(each(shelf) if callable(each) else each for each in what)
        shelf.answers |= refused or {}
        found = await happened(performed(shelf, told, seen.Seen(of, BEGIN), *steps), told)
        shelf.answers.clear()
        shelf.saw = await shelf.looker.look(of)
        return shelf, found

    return act_


async def performed(shelf: Any, told: Told, saw: seen.Seen, *steps: seen.Step) -> Outcome:
    """What has come of these steps."""
    environment = Nothing(control=Nothing(client=shelf.client), recorder=told)
    outcome = Outcome(saw.cluster.metadata)
    await act.Clusters(environment, shelf.looker).perform(saw, Plan(steps), outcome)
    return outcome


def deletion(path: str, uid: str) -> Write:
    return Write("DELETE", path, {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": uid}})


def patch(**what: Any) -> Write:
    return Write("PATCH", CLUSTER_PATH, {**what, "metadata": {**what.get("metadata", {}), **SEEN}})


def went(
    *errors: type[KubewrightError], gone: bool = False, **failed: str
) -> Callable[[Shelf, Happened], None]:
    """The errors that the outcome has, what the status shall say, and whether the Cluster is gone."""

    def then(_shelf: Shelf, found: Happened) -> None:
        outcome, said = found.outcome, {name.replace("_", " "): text for name, text in failed.items()}
        assert isinstance(outcome, Outcome)
        assert [type(each) for each in outcome.errors] == list(errors)
        assert (outcome.shown, outcome.gone) == (said, gone)

    return then


def leads_to(host: str) -> Such:
    """The content of a Secret by which the administrator reaches the API server at this host."""

    def holds(data: Any) -> bool:
        made = read_secret(SECRET.from_plain({"metadata": {"name": "x"}, "data": data})).kubeconfig
        known = made.server, made.authority, made.not_before is not None and made.not_before <= BEGIN
        return known == (f"https://{host}:6443", PAIR.certificate, True)

    return Such(f"a kubeconfig for {host}", holds)


CREATED = Write(
    "POST",
    SECRETS,
    {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": "c-kubeconfig",
            "labels": {"cluster.x-k8s.io/cluster-name": "c"},
            "ownerReferences": [
                {
                    "apiVersion": "cluster.x-k8s.io/v1beta1",
                    "kind": "Cluster",
                    "name": "c",
                    "uid": "c",
                    "controller": False,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "type": "cluster.x-k8s.io/secret",
        "data": leads_to("h"),
    },
)
HELD = ((SECRET, kubeconfig("h")),)
RENEWED = Write(
    "PATCH",
    f"{SECRETS}/c-kubeconfig",
    {"data": leads_to("new"), "metadata": {"uid": "uid-of-c-kubeconfig", "resourceVersion": "102"}},
)


def its_kubeconfig_is_known(shelf: Shelf, found: Happened) -> None:
    """The look after the pass sees the Secret, and has not read it from the server."""
    went()(shelf, found)
    held = shelf.saw.kubeconfig
    assert held.metadata.name == "c-kubeconfig"
    assert f"GET {SECRETS}/c-kubeconfig" not in shelf.asked


def a_users_is_seen(shelf: Shelf, found: Happened) -> None:
    """The look after the pass reads the Secret that no cache shows."""
    went()(shelf, found)
    assert shelf.saw.kubeconfig.metadata.uid == "the user's"
    assert f"GET {SECRETS}/c-kubeconfig" in shelf.asked


def claim(about: str, ref: Any) -> seen.Step:
    return seen.Claim(about, external(ref), OWNED)


USERS = structs.replace(
    kubeconfig("h"), metadata=structs.replace(kubeconfig("h").metadata, uid="the user's", labels={})
)
SIGNED = (SECRET, authority(PAIR))
CLAIMED, PLANE_CLAIMED = Write("PATCH", FOO, OWNED), Write("PATCH", PLANE_OBJECT, OWNED)
INFRASTRUCTURE, CONTROL_PLANE = claim("infrastructure", INFRA), claim("control plane", PLANE)
CHILDREN = (seen.DeleteChild(child(MACHINE_SET, "s")), seen.DeleteChild(child(MACHINE, "m")))
LAID = ((MACHINE, machine("m")), of_revision(MACHINE_SET, "s", "1"))
BOTH = (deletion(f"{SETS}/s", "s"), deletion(f"{MACHINES}/m", "m"))
QUOTED = Invalid("data: Invalid value: the key of the administrator")
DELETED = (("c", "Deleted", "Cluster c has been deleted", False),)
ACT = Act(
    "clusters.cluster.act",
    seen.Step,
    (
        Scene("nothing is to be done", doing(), (), then=went()),
        Scene(
            "the finalizer is added to those of others",
            doing(seen.AddFinalizer(), finalizers=(OTHERS,)),
            (seen.AddFinalizer,),
            (patch(metadata={"finalizers": [OTHERS, CLUSTER_FINALIZER]}),),
            then=went(),
        ),
        Scene(
            "the finalizer is removed, and those of others stay",
            doing(seen.RemoveFinalizer(), finalizers=(OTHERS, CLUSTER_FINALIZER)),
            (seen.RemoveFinalizer,),
            (patch(metadata={"finalizers": [OTHERS]}),),
            events=DELETED,
            then=went(gone=True),
        ),
        Scene(
            "the last finalizer is removed",
            doing(seen.RemoveFinalizer(), finalizers=(CLUSTER_FINALIZER,)),
            (seen.RemoveFinalizer,),
            (patch(metadata={"finalizers": None}),),
            events=DELETED,
            then=went(gone=True),
        ),
        Scene(
            "the finalizer may not be removed: the Cluster is not gone",
            doing(seen.RemoveFinalizer(), refused={CLUSTER_PATH: Forbidden("no")}),
            (seen.RemoveFinalizer,),
            (patch(metadata={"finalizers": None}),),
            then=went(Forbidden, Cluster="could not write the Cluster: no"),
        ),
        Scene(
            "the endpoint is written onto the version that was seen",
            doing(seen.SetEndpoint(ApiEndpoint(host="h", port=6443))),
            (seen.SetEndpoint,),
            (patch(spec={"controlPlaneEndpoint": {"host": "h", "port": 6443}}),),
            then=went(),
        ),
        Scene(
            "the Cluster has changed since: nothing is written or shown",
            doing(seen.SetEndpoint(NEW_HOST), overtaken=True),
            (seen.SetEndpoint,),
            (patch(spec={"controlPlaneEndpoint": {"host": "new", "port": 6443}}),),
            then=went(Conflict),
        ),
        Scene(
            "the objects of both providers become the Cluster's",
            doing(INFRASTRUCTURE, CONTROL_PLANE),
            (seen.Claim,),
            (CLAIMED, PLANE_CLAIMED),
            then=went(),
        ),
        Scene(
            "one object may not be written: the other is claimed, and the status says which it is",
            doing(INFRASTRUCTURE, CONTROL_PLANE, refused={FOO: Forbidden("no")}),
            (seen.Claim,),
            (CLAIMED, PLANE_CLAIMED),
            then=went(Forbidden, infrastructure="could not make the Cluster the owner of Foo m: no"),
        ),
        Scene(
            "one object is gone: the next look sees it, and nobody is told",
            doing(INFRASTRUCTURE, CONTROL_PLANE, refused={FOO: NotFound("gone", details={"name": "m"})}),
            (seen.Claim,),
            (CLAIMED, PLANE_CLAIMED),
            then=went(NotFound),
        ),
        Scene(
            "the server does not answer: each part says so",
            doing(
                INFRASTRUCTURE,
                CONTROL_PLANE,
                refused={FOO: Silent("silence"), PLANE_OBJECT: Silent("silence")},
            ),
            (seen.Claim,),
            (CLAIMED, PLANE_CLAIMED),
            then=went(
                Silent,
                Silent,
                infrastructure="could not make the Cluster the owner of Foo m: silence",
                control_plane="could not make the Cluster the owner of Plane p: silence",
            ),
        ),
        Scene(
            "the kubeconfig is made and signed by the authority",
            doing(new_kubeconfig, there=(SIGNED,)),
            (seen.WriteKubeconfig,),
            (CREATED,),
            then=its_kubeconfig_is_known,
        ),
        Scene(
            "the kubeconfig leads elsewhere: only its content is written, onto the version that was seen",
            doing(old_kubeconfig, there=HELD),
            (seen.WriteKubeconfig,),
            (RENEWED,),
            then=went(),
        ),
        Scene(
            "a user made the kubeconfig: it stays, and is seen from now on",
            doing(new_kubeconfig, there=(SIGNED, (SECRET, USERS))),
            (seen.WriteKubeconfig,),
            (CREATED,),
            then=a_users_is_seen,
        ),
        Scene(
            "the kubeconfig is refused: what the server says of it is not repeated",
            doing(new_kubeconfig, refused={SECRETS: QUOTED}),
            (seen.WriteKubeconfig,),
            (CREATED,),
            then=went(
                Invalid,
                kubeconfig="could not write the Secret with the kubeconfig: the server answered 422 Invalid",
            ),
        ),
        Scene(
            "the kubeconfig is not answered for: the status says that",
            doing(new_kubeconfig, refused={SECRETS: Silent("silence")}),
            (seen.WriteKubeconfig,),
            (CREATED,),
            then=went(Silent, kubeconfig="could not write the Secret with the kubeconfig: silence"),
        ),
        Scene(
            "children are deleted, if they are those that were seen",
            doing(*CHILDREN, there=LAID),
            (seen.DeleteChild,),
            BOTH,
            then=went(),
        ),
        Scene(
            "a child is gone already, and the name of another has been taken",
            doing(
                *CHILDREN,
                there=(
                    (
                        MACHINE,
                        structs.replace(
                            machine("m"), metadata=structs.replace(machine("m").metadata, uid="new")
                        ),
                    ),
                ),
            ),
            (seen.DeleteChild,),
            BOTH,
            then=went(Conflict),
        ),
        Scene(
            "children may not be deleted: the others are, and what is no child is handled, too",
            doing(
                INFRASTRUCTURE,
                *CHILDREN,
                there=LAID,
                refused={f"{SETS}/s": Forbidden("no")},
            ),
            (seen.DeleteChild, seen.Claim),
            (CLAIMED, *BOTH),
            then=went(Forbidden, children="could not delete MachineSet s: no"),
        ),
        Scene(
            "neither the Cluster nor its children may be written: the status says both",
            doing(
                seen.RemoveFinalizer(),
                *CHILDREN,
                refused={CLUSTER_PATH: Forbidden("no"), f"{MACHINES}/m": Silent("silence")},
            ),
            (seen.RemoveFinalizer, seen.DeleteChild),
            (patch(metadata={"finalizers": None}), *BOTH),
            then=went(
                Forbidden,
                Silent,
                Cluster="could not write the Cluster: no",
                children="could not delete Machine m: silence",
            ),
        ),
        Scene(
            "the objects of providers are deleted, if they are those that were seen",
            doing(
                seen.DeleteExternal("infrastructure", external(INFRA)),
                seen.DeleteExternal("control plane", external(PLANE, "other")),
            ),
            (seen.DeleteExternal,),
            (deletion(FOO, "foo"), deletion(PLANE_OBJECT, "other")),
            then=went(Conflict),
        ),
        Scene(
            "an object of a provider may not be deleted: the status says so",
            doing(seen.DeleteExternal("infrastructure", external(INFRA)), refused={FOO: Forbidden("no")}),
            (seen.DeleteExternal,),
            (deletion(FOO, "foo"),),
            then=went(Forbidden, infrastructure="could not delete Foo m: no"),
        ),
        Scene(
            "the kind of a provider's object is not served for now: the object may be there",
            doing(seen.DeleteExternal("infrastructure", external(INFRA)), refused={FOO: NOT_SERVED}),
            (seen.DeleteExternal,),
            (deletion(FOO, "foo"),),
            then=went(NotFound, infrastructure="could not delete Foo m: 404 page not found"),
        ),
        Scene(
            "an object of a provider is gone already",
            doing(
                seen.DeleteExternal("control plane", external(PLANE)),
                refused={PLANE_OBJECT: NotFound("gone", details={"name": "p"})},
            ),
            (seen.DeleteExternal,),
            (deletion(PLANE_OBJECT, "foo"),),
            then=went(),
        ),
    ),
)
