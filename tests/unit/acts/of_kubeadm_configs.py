"""Scenes of KubeadmConfigs: what their act writes, what it tells when it may not, and which tokens it keeps."""

from base64 import b64encode
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from msgspec import structs

from kubewright.api.bootstrap.v1beta1 import KUBEADM_CONFIG, InitConfiguration, KubeadmConfigSpec
from kubewright.api.cluster.conditions import ConditionType
from kubewright.api.cluster.v1beta1 import Cluster, ObjectReference
from kubewright.api.core import CONFIG_MAP, SECRET, Secret
from kubewright.api.meta import ObjectMeta, OwnerReference
from kubewright.base.errors import KubewrightError
from kubewright.bootstrap import act, lock
from kubewright.bootstrap import seen as steps
from kubewright.bootstrap.decide import available
from kubewright.bootstrap.look import Looker
from kubewright.bootstrap.seen import DataSeen, Seen
from kubewright.bootstrap.token_calls import TokenCalls
from kubewright.kube.client import Client
from kubewright.kube.errors import Silent
from kubewright.kube.patches import Contested, Target
from kubewright.kube.transport import InProcess
from kubewright.pki.credentials import Purpose, problem_of
from kubewright.runtime.credentials.values import pair_of
from kubewright.runtime.result import Result
from kubewright.runtime.sessions.session import Session
from kubewright.testing.acts import NOT_SERVED, Act, Happened, Scene, Such, Told, all_ended, happened, laid
from kubewright.testing.clocks import BEGIN
from kubewright.testing.looks import Shelf, Write
from kubewright.wire.errors import AlreadyExists, Conflict, Forbidden, NotFound, ServerError
from kubewright.wire.gvk import Key
from kubewright.wire.http import Handler, Request, Response

from ..looks.of_kubeadm_configs import EC, PAIR, TOKEN, Provider, authority, cluster, config, machine

CONFIG = "/apis/bootstrap.cluster.x-k8s.io/v1beta1/namespaces/n/kubeadmconfigs/m"
SECRETS, MAPS = "/api/v1/namespaces/n/secrets", "/api/v1/namespaces/n/configmaps"
DATA, LOCK = f"{SECRETS}/m", f"{MAPS}/c-lock"
LABELS = {"cluster.x-k8s.io/cluster-name": "c"}
OWNER = {
    "apiVersion": "bootstrap.cluster.x-k8s.io/v1beta1",
    "kind": "KubeadmConfig",
    "name": "m",
    "uid": "config",
    "controller": True,
}
BY_CLUSTER = {"apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Cluster", "name": "c", "uid": "cluster"}
ITSELF = Key("n", "m")
WITHHELD = Contested(Target("cluster", KUBEADM_CONFIG.resource, ITSELF), ("spec.initConfiguration",), 60.0, 3)


class Stage(Provider):
    """Both clusters. ``calls`` reaches the workload cluster; ``asked`` and ``woken`` count from the act on."""

    def __init__(self) -> None:
        super().__init__()
        self.workload = Shelf(self.clock)
        self.workload.objects["/version"] = {"gitVersion": "v1.36.3"}
        self.woken: list[Key] = []
        self.calls = TokenCalls(self, self.clock, EC.token_ttl, self.woken.append)
        self.looker = Looker(self.caches, self.in_caches, self.calls, EC)
        self.running = False
        self.after: Seen | None = None

    def get(self, cluster: Key) -> Session:
        return Session(self.workload.client, self.workload.caches, cluster)


def doing(
    *what: steps.Step,
    report: steps.Report | None = None,
    wake: timedelta | None = None,
    ready: bool = False,
    secret: Secret | None = None,
    there: tuple[tuple[Any, Any], ...] = (),
    refused: dict[str, KubewrightError] | None = None,
    overtaken: bool = False,
    of: Cluster | None = None,
    withheld: bool = False,
    unless_done: tuple[steps.ReleaseLock, ...] = (),
    **saw: Any,
):
    """``secret``: the data Secret that was seen. ``there``: what else stands on the server, in no cache.

    ``overtaken``: another client has written the KubeadmConfig since. ``withheld``: no patch of its steps is
    sent, since others undo them.
    """

    async def act_() -> tuple[Shelf, Happened]:
        stage, told = Stage(), Told()
        written = config(ready=ready)
        written = laid(
            stage,
            KUBEADM_CONFIG,
            structs.replace(written, metadata=structs.replace(written.metadata, generation=4)),
        )
        seen_secret = laid(stage, SECRET, secret) if secret is not None else None
        for kind, each in there:
            stage.lay(kind, each)
        if overtaken:
            stage.lay(KUBEADM_CONFIG, written)
        stage.answers |= refused or {}
        seen = Seen(
            written,
            BEGIN,
            EC,
            machine(control_plane=True),
            of or cluster(initialized=False),
            secret=seen_secret,
            **saw,
        )
        client = Client(InProcess(_withheld(stage)), stage.clock) if withheld else stage.client
        configs = act.KubeadmConfigs(client, stage.in_caches.configs, told, stage.looker, stage.calls)
        plan = steps.Plan(what, wake, report=report, unless_done=unless_done)
        found = await happened(configs.carry_out(written, seen, plan), told)
        stage.running = stage.calls.seen(ITSELF, Key("n", "c"), TOKEN).running
        await all_ended()
        return stage, found

    return act_


def _withheld(stage: Stage) -> Handler:
    async def handle(request: Request) -> Response:
        if not request.path.endswith("/status"):
            raise WITHHELD
        return await stage.handle(request)

    return handle


def then_looks(first: Callable[[], Any], data: str | None = None):
    """The same, and then a look: what the act has told the looker shows in what that asks the server for.

    ``data``: the name of the data Secret that the Machine has been given.
    """

    async def act_() -> tuple[Shelf, Happened]:
        stage, found = await first()
        stage.answers.clear()
        await stage.has(initialized=False, of=machine(control_plane=True, data=data))
        stage.asked.clear()
        stage.after = await stage.looker.look(config(init_configuration=InitConfiguration()))
        return stage, found

    return act_


def again(after: float | None) -> Callable[[Shelf, Happened], None]:
    """When the next pass comes at the latest; None: on a change."""

    def then(_shelf: Shelf, found: Happened) -> None:
        assert found.outcome == Result(after)

    return then


def condition(kind: str, told: str) -> dict[str, Any]:
    false = {
        "status": "False",
        "reason": "DataSecretGenerationFailed",
        "severity": "Warning",
        "message": told,
    }
    return {"type": kind, "lastTransitionTime": "2030-01-01T00:00:00Z", **false}


def status(version: str, **what: Any) -> Write:
    seen = {"uid": "config", "resourceVersion": version}
    return Write("PATCH", f"{CONFIG}/status", {"status": {"observedGeneration": 4, **what}, "metadata": seen})


def failed(told: str, version: str = "101") -> Write:
    return status(version, conditions=[condition("Ready", told), condition("DataSecretAvailable", told)])


def refusal(doing_: str, version: str = "101") -> Write:
    return failed(f"the API server refuses to {doing_}: 403 Forbidden", version)


def pair_for(name: str, purpose: Purpose) -> Write:
    """A Secret with a new pair, of both the KubeadmConfig and the Cluster."""

    def holds(data: Any) -> bool:
        pair = pair_of(SECRET.from_plain({"metadata": {"name": name}, "data": data}))
        return problem_of(pair, BEGIN, signs=purpose is Purpose.CA) == "" and bool(pair.key)

    meta = {"name": name, "namespace": "n", "labels": LABELS, "ownerReferences": [OWNER, BY_CLUSTER]}
    kind = {"apiVersion": "v1", "kind": "Secret", "type": "cluster.x-k8s.io/secret"}
    return Write("POST", SECRETS, {**kind, "metadata": meta, "data": Such(f"a pair for {name}", holds)})


def data_of(text: str) -> dict[str, str]:
    return {"value": b64encode(text.encode()).decode(), "format": b64encode(b"ignition").decode()}


def written_onto(uid: str) -> Write:
    return Write("PATCH", DATA, {"metadata": {"labels": LABELS, "uid": uid}, "data": data_of("boot")})


def data_secret(*owners: OwnerReference, labels: dict[str, str] = LABELS) -> Secret:
    meta = ObjectMeta(name="m", namespace="n", uid="data", labels=labels, owner_references=owners)
    return Secret(metadata=meta, type="cluster.x-k8s.io/secret")


def owner(kind: str, name: str, uid: str, **how: bool) -> OwnerReference:
    group = "bootstrap.cluster.x-k8s.io/v1beta1" if kind == "KubeadmConfig" else "example.com/v1"
    return OwnerReference(api_version=group, kind=kind, name=name, uid=uid, **how)


def the_pair_is_known(shelf: Shelf, found: Happened) -> None:
    """The look after the pass has the pair, and has not read it from the server."""
    again(None)(shelf, found)
    made = pair_of(SECRET.from_plain(shelf.objects[f"{SECRETS}/c-ca"]))
    assert shelf.after.pairs[Purpose.CA] == made
    assert f"GET {SECRETS}/c-ca" not in shelf.asked


def a_users_pair_is_read(shelf: Shelf, found: Happened) -> None:
    again(None)(shelf, found)
    assert shelf.after.pairs[Purpose.CA] == PAIR


def leaves_it_to_others(shelf: Shelf, found: Happened) -> None:
    again(30.0)(shelf, found)
    assert shelf.after.yields_until == BEGIN + timedelta(seconds=30)


def the_data_are_known(shelf: Shelf, found: Happened) -> None:
    """The look after the pass knows what is in the Secret, and has not read it from the server."""
    again(None)(shelf, found)
    assert shelf.after.data == DataSeen(made=True)
    assert f"GET {DATA}" not in shelf.asked


def the_token_is_kept(*, also: tuple[str, ...] = ()) -> Callable[[Shelf, Happened], None]:
    """The call ran beside the pass; then the KubeadmConfig was looked at again. ``also``: what else it made."""

    def then(shelf: Shelf, found: Happened) -> None:
        again(None)(shelf, found)
        assert shelf.running
        assert shelf.woken == [ITSELF]
        made = {path.rsplit("/", 1)[-1] for path in shelf.workload.objects}
        assert f"bootstrap-token-{TOKEN.id}" in made
        assert set(also) <= made

    return then


TAKEN = Write(
    "POST",
    MAPS,
    {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "c-lock", "namespace": "n", "labels": LABELS, "ownerReferences": [BY_CLUSTER]},
        "data": {"lock-information": '{"machineName":"m"}'},
    },
)
RELEASED = Write(
    "DELETE", LOCK, {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": "lock"}}
)
HELD = CONFIG_MAP.from_plain(lock.config_map(cluster(initialized=False), "m"))
HELD = structs.replace(HELD, metadata=structs.replace(HELD.metadata, uid="lock"))
FILL, FILLED = (
    steps.PatchSpec(KubeadmConfigSpec(init_configuration=InitConfiguration())),
    Write(
        "PATCH",
        CONFIG,
        {
            "spec": {"initConfiguration": {"nodeRegistration": {}, "localAPIEndpoint": {}}},
            "metadata": {"uid": "config", "resourceVersion": "101"},
        },
    ),
)
WRITE = steps.WriteData("ignition", "boot")
CREATED = Write(
    "POST",
    SECRETS,
    {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "cluster.x-k8s.io/secret",
        "metadata": {"name": "m", "namespace": "n", "labels": LABELS, "ownerReferences": [OWNER]},
        "data": data_of("boot"),
    },
)
CERTIFICATES = steps.MakeCertificates((Purpose.CA, Purpose.SERVICE_ACCOUNT))
MADE = (pair_for("c-ca", Purpose.CA), pair_for("c-sa", Purpose.SERVICE_ACCOUNT))
NESTED = ObjectReference(
    api_version="controlplane.cluster.x-k8s.io/v1alpha4", kind="NestedControlPlane", name="p"
)
HOSTED = structs.replace(
    cluster(initialized=True), spec=structs.replace(cluster(initialized=True).spec, control_plane_ref=NESTED)
)
DATA_READY = steps.Report((available(ConditionType.DATA_SECRET_AVAILABLE),), "m")
OTHERS = owner("Thing", "x", "x", block_owner_deletion=True)
OLD_SELF = owner("KubeadmConfig", "m", "older", controller=True)
NOT_CONTROLLING = owner("KubeadmConfig", "m", "config")
OTHERS_PLAIN = {
    "apiVersion": "example.com/v1",
    "kind": "Thing",
    "name": "x",
    "uid": "x",
    "blockOwnerDeletion": True,
}
OWNED = Write(
    "PATCH",
    DATA,
    {"metadata": {"ownerReferences": [OTHERS_PLAIN, OWNER], "uid": "data", "resourceVersion": "102"}},
)
OURS = data_secret(owner("KubeadmConfig", "m", "config", controller=True), labels={})
A_THINGS = data_secret(owner("Thing", "x", "x", controller=True))
TRUE = {"type": "Ready", "status": "True", "lastTransitionTime": "2030-01-01T00:00:00Z"}
AVAILABLE = [TRUE, {**TRUE, "type": "DataSecretAvailable"}]
ACT = Act(
    "bootstrap.act",
    steps.Step,
    (
        Scene("nothing is to be done", doing(), (), then=again(None)),
        Scene(
            "nothing is to be done for a while",
            doing(wake=timedelta(seconds=20)),
            (),
            then=again(20.0),
        ),
        Scene(
            "its data are ready: the status follows its spec",
            doing(ready=True),
            (),
            (status("101"),),
            then=again(None),
        ),
        Scene(
            "its data Secret becomes its own: references of others stay whole, an older one of its own goes",
            doing(steps.OwnData(), secret=data_secret(OTHERS, OLD_SELF, NOT_CONTROLLING)),
            (steps.OwnData,),
            (OWNED,),
            then=again(None),
        ),
        Scene(
            "its data Secret may not be owned: the status says so, and the rest waits",
            doing(
                steps.OwnData(),
                FILL,
                secret=data_secret(OTHERS),
                refused={DATA: Forbidden("it has boot in it")},
            ),
            (steps.OwnData,),
            (OWNED, refusal("make the KubeadmConfig the owner of its data Secret")),
            then=again(30.0),
        ),
        Scene(
            "the init lock is taken, then the spec and the data are written, and then it is reported",
            doing(steps.TakeLock(), FILL, WRITE, report=DATA_READY),
            (steps.TakeLock, steps.PatchSpec, steps.WriteData),
            (TAKEN, FILLED, CREATED, status("103", ready=True, dataSecretName="m", conditions=AVAILABLE)),
            then=again(None),
        ),
        Scene(
            "another machine took the init lock before: nothing else is written",
            doing(steps.TakeLock(), FILL, WRITE, report=DATA_READY, there=((CONFIG_MAP, HELD),)),
            (steps.TakeLock,),
            (TAKEN,),
            error=AlreadyExists,
        ),
        Scene(
            "the init lock may not be made: the status says so",
            doing(steps.TakeLock(), FILL, refused={MAPS: Forbidden("no")}),
            (steps.TakeLock,),
            (TAKEN, refusal("create the init lock")),
            then=again(30.0),
        ),
        Scene(
            "the init lock is released, if it is the one that was seen",
            doing(steps.ReleaseLock("lock"), there=((CONFIG_MAP, HELD),), wake=timedelta(0)),
            (steps.ReleaseLock,),
            (RELEASED,),
            then=again(0.0),
        ),
        Scene(
            "the init lock is gone already: what follows is done",
            doing(steps.ReleaseLock("lock"), FILL),
            (steps.ReleaseLock, steps.PatchSpec),
            (RELEASED, FILLED),
            then=again(None),
        ),
        Scene(
            "a proxy finds nothing: the init lock may be there, and nothing else is done",
            doing(steps.ReleaseLock("lock"), FILL, refused={LOCK: NOT_SERVED}),
            (steps.ReleaseLock,),
            (RELEASED,),
            error=NotFound,
        ),
        Scene(
            "another machine holds the init lock by now: it stays, and what follows is done",
            doing(steps.ReleaseLock("older"), FILL, there=((CONFIG_MAP, HELD),)),
            (steps.ReleaseLock, steps.PatchSpec),
            (Write("DELETE", LOCK, {**RELEASED.body, "preconditions": {"uid": "older"}}), FILLED),
            then=again(None),
        ),
        Scene(
            "the init lock may not be deleted: the status says so",
            doing(steps.ReleaseLock("lock"), FILL, refused={LOCK: Forbidden("no")}),
            (steps.ReleaseLock,),
            (RELEASED, refusal("delete the init lock")),
            then=again(30.0),
        ),
        Scene(
            "certificates are made, and the next look has the pairs at hand",
            then_looks(doing(CERTIFICATES)),
            (steps.MakeCertificates,),
            MADE,
            then=the_pair_is_known,
        ),
        Scene(
            "a user made a certificate: it stays and is read, and the others are made",
            then_looks(
                doing(
                    CERTIFICATES,
                    there=(
                        (
                            SECRET,
                            structs.replace(authority(PAIR), metadata=ObjectMeta(name="c-ca", namespace="n")),
                        ),
                    ),
                )
            ),
            (steps.MakeCertificates,),
            MADE,
            then=a_users_pair_is_read,
        ),
        Scene(
            "certificates may not be made: the status says so, and none of the server's words",
            doing(CERTIFICATES, refused={SECRETS: Forbidden("it has a key in it")}),
            (steps.MakeCertificates,),
            (MADE[0], refusal("create the cluster's certificates")),
            then=again(30.0),
        ),
        Scene(
            "the spec may not be written: the data are not either",
            doing(FILL, WRITE, report=DATA_READY, refused={f"PATCH {CONFIG}": Forbidden("no")}),
            (steps.PatchSpec,),
            (FILLED, refusal("fill in the KubeadmConfig's spec")),
            then=again(30.0),
        ),
        Scene(
            "another client takes out of the spec what is filled in: the status says so, and in the same words each time",
            doing(FILL, WRITE, report=DATA_READY, withheld=True),
            (steps.PatchSpec,),
            (failed(f"it is not tried for now to fill in the KubeadmConfig's spec: {WITHHELD.steady}"),),
            then=again(30.0),
        ),
        Scene(
            "the KubeadmConfig has changed since: nothing else is written or told",
            doing(FILL, WRITE, report=DATA_READY, overtaken=True),
            (steps.PatchSpec,),
            (FILLED,),
            error=Conflict,
        ),
        Scene(
            "the KubeadmConfig is gone: nothing else is written",
            doing(FILL, WRITE, report=DATA_READY, refused={CONFIG: NotFound("gone")}),
            (steps.PatchSpec,),
            (FILLED,),
            error=NotFound,
        ),
        Scene(
            "the server does not answer: nothing else is written or told",
            doing(FILL, WRITE, report=DATA_READY, refused={CONFIG: Silent("silence")}),
            (steps.PatchSpec,),
            (FILLED,),
            error=Silent,
        ),
        Scene(
            "the data are written, and the next look knows them",
            then_looks(doing(WRITE), data="m"),
            (steps.WriteData,),
            (CREATED,),
            then=the_data_are_known,
        ),
        Scene(
            "the data are written into the Secret that is there, and the next look knows them",
            then_looks(doing(WRITE, secret=data_secret()), data="m"),
            (steps.WriteData,),
            (written_onto("data"),),
            then=the_data_are_known,
        ),
        Scene(
            "the Secret that was seen is another one by now: nothing is told",
            doing(
                WRITE,
                report=DATA_READY,
                secret=data_secret(),
                there=(
                    (
                        SECRET,
                        structs.replace(A_THINGS, metadata=structs.replace(A_THINGS.metadata, uid="other")),
                    ),
                ),
            ),
            (steps.WriteData,),
            (written_onto("data"),),
            error=Conflict,
        ),
        Scene(
            "a Secret of its own that no cache shows gets the label and the data, and the next look knows them",
            then_looks(doing(WRITE, there=((SECRET, OURS),)), data="m"),
            (steps.WriteData,),
            (CREATED, written_onto("data")),
            then=the_data_are_known,
        ),
        Scene(
            "a Secret of another that no cache shows stays as it is: the status says whose it is",
            doing(WRITE, report=DATA_READY, there=((SECRET, A_THINGS),), wake=timedelta(hours=1)),
            (steps.WriteData,),
            (CREATED, failed("Secret m is there and is not of this KubeadmConfig: Thing x controls it")),
            then=again(30.0),
        ),
        Scene(
            "the data may not be written: the status is of the spec that was, and says none of the server's words",
            doing(FILL, WRITE, report=DATA_READY, refused={SECRETS: Forbidden("it has boot in it")}),
            (steps.PatchSpec, steps.WriteData),
            (FILLED, CREATED, refusal("write the data Secret", "102")),
            then=again(30.0),
        ),
        Scene(
            "the data may not be written: the machine gives up the init lock, so that another can be the first",
            then_looks(
                doing(
                    WRITE,
                    report=DATA_READY,
                    unless_done=(steps.ReleaseLock("lock"),),
                    there=((CONFIG_MAP, HELD),),
                    refused={SECRETS: Forbidden("no")},
                )
            ),
            (steps.WriteData, steps.ReleaseLock),
            (CREATED, refusal("write the data Secret"), RELEASED),
            then=leaves_it_to_others,
        ),
        Scene(
            "the data are not answered for: they may be there, so the machine keeps the init lock",
            doing(
                WRITE,
                unless_done=(steps.ReleaseLock("lock"),),
                there=((CONFIG_MAP, HELD),),
                refused={SECRETS: Silent("silence")},
            ),
            (steps.WriteData,),
            (CREATED,),
            error=Silent,
        ),
        Scene(
            "the data are written: the machine keeps the init lock",
            doing(WRITE, unless_done=(steps.ReleaseLock("lock"),), there=((CONFIG_MAP, HELD),)),
            (steps.WriteData,),
            (CREATED,),
            then=again(None),
        ),
        Scene(
            "the server fails: nothing is told, since it may write the data a moment later",
            doing(WRITE, report=DATA_READY, refused={SECRETS: ServerError("etcd")}),
            (steps.WriteData,),
            (CREATED,),
            error=ServerError,
        ),
        Scene(
            "the status may not be written",
            doing(report=DATA_READY, refused={f"PATCH {CONFIG}/status": Forbidden("no")}),
            (),
            (status("101", ready=True, dataSecretName="m", conditions=AVAILABLE),),
            error=Forbidden,
        ),
        Scene(
            "its token is made in the workload cluster, beside the pass",
            doing(steps.KeepToken(TOKEN)),
            (steps.KeepToken,),
            then=the_token_is_kept(),
        ),
        Scene(
            "no machine runs the control plane: the cluster gets what joining takes, too",
            doing(steps.KeepToken(TOKEN), of=HOSTED, pairs={Purpose.CA: PAIR}),
            (steps.KeepToken,),
            then=the_token_is_kept(also=("cluster-info", "kubeadm-config", "kubelet-config")),
        ),
    ),
)
