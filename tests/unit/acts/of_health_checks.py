"""Scenes of MachineHealthChecks: what their act writes onto machines, and what it asks of other remediators."""

from collections.abc import Callable

from msgspec import structs

from kubewright.api.cluster.v1beta1 import MACHINE, MACHINE_HEALTH_CHECK, Condition, Machine
from kubewright.api.meta import OwnerReference
from kubewright.base.errors import KubewrightError
from kubewright.base.plan import Plan
from kubewright.clusters.external.object import External, look_up
from kubewright.clusters.healthcheck import act, seen
from kubewright.kube.client import Client
from kubewright.kube.errors import Silent
from kubewright.kube.patches import Contested, Target
from kubewright.kube.transport import InProcess
from kubewright.runtime.kernel import Outcome
from kubewright.testing.acts import NOT_SERVED, Act, Happened, Scene, Told, happened, laid
from kubewright.testing.clocks import BEGIN
from kubewright.testing.looks import Shelf, Write
from kubewright.wire.errors import AlreadyExists, Conflict, Forbidden, Invalid, NotFound
from kubewright.wire.gvk import Key
from kubewright.wire.http import Request, Response

from ..looks.of_cluster_machines import Providers, machine
from ..looks.of_health_checks import KEY, TEMPLATE, check
from .of_infra_machines import Nothing

CORE = "/apis/cluster.x-k8s.io/v1beta1/namespaces/n"
MACHINES, CHECK = f"{CORE}/machines", f"{CORE}/machinehealthchecks/h"
REQUESTS = "/apis/infrastructure.cluster.x-k8s.io/v1beta1/namespaces/n/foos"
CLUSTER = OwnerReference(api_version="cluster.x-k8s.io/v1beta1", kind="Cluster", name="c", uid="c")
WELL = (Condition(type="HealthCheckSucceeded", status="True"),)
ILL = (Condition(type="HealthCheckSucceeded", status="False", severity="Warning", reason="UnhealthyNode"),)
MARKED = tuple(
    (each, "MachineMarkedUnhealthy", f"Machine {each} has been marked as unhealthy", False) for each in "ab"
)
INNER = {"metadata": {"labels": {"x": "y"}, "annotations": {"p": "q"}}, "spec": {"how": "anew"}}
TEMPLATES = Providers({"FooTemplate": {"spec": {"template": INNER}}})

Machines = dict[str, Machine]
"""The machines a and b, as the check has seen them."""


def doing(
    *what: Callable[[Machines], seen.Step],
    refused: dict[str, KubewrightError] | None = None,
    overtaken: bool = False,
    there: bool = True,
    withheld: bool = False,
):
    """``overtaken``: another client has written the machine a since. ``there``: the request of a is there.

    ``withheld``: no write is sent, since others undo them.
    """

    async def act_() -> tuple[Shelf, Happened]:
        shelf, told = Shelf(), Told()
        machines = {each: laid(shelf, MACHINE, machine(each)) for each in "ab"}
        of = laid(shelf, MACHINE_HEALTH_CHECK, check())
        if there:
            shelf.objects[f"{REQUESTS}/a"] = {"metadata": {"name": "a", "uid": "request"}}
        if overtaken:
            shelf.lay(MACHINE, machine("a"))
        shelf.answers |= refused or {}
        saw = seen.Seen(of, None, 0.0, BEGIN, template=look_up(TEMPLATES, KEY, TEMPLATE))
        client = Client(InProcess(_withheld), shelf.clock) if withheld else shelf.client
        plan = Plan(tuple(each(machines) for each in what))
        return shelf, await happened(performed(client, shelf, told, saw, plan), told)

    return act_


async def performed(client: Client, shelf: Shelf, told: Told, saw: seen.Seen, plan: Plan) -> Outcome:
    """What has come of the plan."""
    environment = Nothing(control=Nothing(client=client), recorder=told)
    checks = Nothing(checks=shelf.caches.get(MACHINE_HEALTH_CHECK))
    outcome = Outcome(saw.check.metadata)
    await act.HealthChecks(environment, checks).perform(saw, plan, outcome)
    return outcome


async def _withheld(_request: Request) -> Response:
    raise Contested(Target("cluster", MACHINE.resource, Key("n", "a"), "status", "a"), ("status",), 60.0, 3)


def owned(_machines: Machines) -> seen.Step:
    meta = check().metadata
    return seen.UpdateHealthCheck(structs.replace(meta, labels={"of": "c"}, owner_references=(CLUSTER,)))


def ill(name: str) -> Callable[[Machines], seen.Step]:
    return lambda machines: seen.WriteConditions(machines[name], ILL, unhealthy=True)


def well(name: str) -> Callable[[Machines], seen.Step]:
    return lambda machines: seen.WriteConditions(machines[name], WELL)


def asked(name: str) -> Callable[[Machines], seen.Step]:
    return lambda machines: seen.CreateRemediationRequest(machines[name])


def let_go(machines: Machines) -> seen.Step:
    return seen.DeleteRemediationRequest(machines["a"], request("request"))


def request(uid: str) -> External:
    found = Providers({"Foo": {"metadata": {"name": "a", "uid": uid}}})
    return look_up(found, KEY, structs.replace(TEMPLATE, kind="Foo", name="a"))


def conditions(name: str, version: str, told: dict[str, str]) -> Write:
    body = {"metadata": {"uid": name, "resourceVersion": version}, "status": {"conditions": [told]}}
    return Write("PATCH", f"{MACHINES}/{name}/status", body)


def creation(name: str) -> Write:
    owner = {"apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Machine", "name": name, "uid": name}
    meta = {
        "name": name,
        "namespace": "n",
        "labels": {"x": "y", "cluster.x-k8s.io/cluster-name": "c"},
        "annotations": {
            "p": "q",
            "cluster.x-k8s.io/cloned-from-name": "t",
            "cluster.x-k8s.io/cloned-from-groupkind": "FooTemplate.infrastructure.cluster.x-k8s.io",
        },
        "ownerReferences": [owner],
    }
    kind = {"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "Foo"}
    return Write("POST", REQUESTS, {**kind, "metadata": meta, "spec": {"how": "anew"}})


ILL_PLAIN = {
    "type": "HealthCheckSucceeded",
    "status": "False",
    "severity": "Warning",
    "reason": "UnhealthyNode",
}
WELL_PLAIN = {"type": "HealthCheckSucceeded", "status": "True"}
A_ILL, B_ILL = conditions("a", "101", ILL_PLAIN), conditions("b", "102", ILL_PLAIN)
PRECONDITION = {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": "request"}}
DELETION = Write("DELETE", f"{REQUESTS}/a", PRECONDITION)


OWNED = Write(
    "PATCH",
    CHECK,
    {
        "metadata": {
            "labels": {"of": "c"},
            "ownerReferences": [
                {
                    "apiVersion": "cluster.x-k8s.io/v1beta1",
                    "kind": "Cluster",
                    "name": "c",
                    "uid": "c",
                }
            ],
            "uid": "h",
            "resourceVersion": "103",
        }
    },
)


def not_done(doing: str) -> tuple[str, str, str, bool]:
    return "h", "FailedUpdate", f"could not {doing}: no", True


def went(*errors: type[KubewrightError], **failed: str) -> Callable[[Shelf, Happened], None]:
    """The errors that the outcome has, and what the status shall say of requests."""

    def then(_shelf: Shelf, found: Happened) -> None:
        outcome = found.outcome
        assert isinstance(outcome, Outcome)
        assert ([type(each) for each in outcome.errors], outcome.shown) == (list(errors), failed)

    return then


def none_is_left(shelf: Shelf, found: Happened) -> None:
    went()(shelf, found)
    assert f"{REQUESTS}/a" not in shelf.objects


ACT = Act(
    "clusters.healthcheck.act",
    seen.Step,
    (
        Scene("nothing is to be done", doing(), (), then=went()),
        Scene(
            "its label and its owner are written onto the version that was seen",
            doing(owned),
            (seen.UpdateHealthCheck,),
            (OWNED,),
            then=went(),
        ),
        Scene(
            "machines are told that they are unhealthy, and so are users",
            doing(ill("a"), ill("b")),
            (seen.WriteConditions,),
            (A_ILL, B_ILL),
            events=MARKED,
            then=went(),
        ),
        Scene(
            "a machine is told that it is healthy again, and nobody else",
            doing(well("a")),
            (seen.WriteConditions,),
            (conditions("a", "101", WELL_PLAIN),),
            then=went(),
        ),
        Scene(
            "another client was faster with one machine: the other is told all the same",
            doing(ill("a"), ill("b"), overtaken=True),
            (seen.WriteConditions,),
            (A_ILL, B_ILL),
            events=MARKED[1:],
            then=went(Conflict),
        ),
        Scene(
            "the conditions of a machine may not be written: users are told, and the rest is done",
            doing(ill("a"), ill("b"), refused={f"{MACHINES}/a": Forbidden("no")}),
            (seen.WriteConditions,),
            (A_ILL, B_ILL),
            events=(not_done("write the conditions of Machine a"), MARKED[1]),
            then=went(Forbidden),
        ),
        Scene(
            "what is refused of the check itself and of requests is told, too",
            doing(owned, let_go, refused={CHECK: Forbidden("no"), f"{REQUESTS}/a": Invalid("no")}),
            (seen.UpdateHealthCheck, seen.DeleteRemediationRequest),
            (OWNED, DELETION),
            events=(not_done("write the MachineHealthCheck"), not_done("delete Foo a")),
            then=went(Forbidden, Invalid),
        ),
        Scene(
            "what is withheld since another client undoes it is told where it was withheld",
            doing(ill("a"), withheld=True),
            (seen.WriteConditions,),
            then=went(Contested),
        ),
        Scene(
            "the server does not answer: it may do so a moment later, and nobody is told",
            doing(ill("a"), refused={f"{MACHINES}/a": Silent("silence")}),
            (seen.WriteConditions,),
            (A_ILL,),
            then=went(Silent),
        ),
        Scene(
            "a request is made from the template, in the name of the machine and owned by it",
            doing(asked("b")),
            (seen.CreateRemediationRequest,),
            (creation("b"),),
            then=went(),
        ),
        Scene(
            "a request may not be made: the status says so, and the rest is done",
            doing(asked("a"), ill("a"), asked("b"), refused={f"POST {REQUESTS}": Forbidden("no")}),
            (seen.CreateRemediationRequest, seen.WriteConditions),
            (creation("a"), A_ILL, creation("b")),
            events=MARKED[:1],
            then=went(Forbidden, Forbidden, a="no", b="no"),
        ),
        Scene(
            "the server does not answer: the status says so of requests",
            doing(asked("a"), ill("b"), refused={f"POST {REQUESTS}": Silent("no answer")}),
            (seen.CreateRemediationRequest, seen.WriteConditions),
            (creation("a"), B_ILL),
            events=MARKED[1:],
            then=went(Silent, a="no answer"),
        ),
        Scene(
            "a request is there already: the next look sees it, and nobody is told",
            doing(asked("a")),
            (seen.CreateRemediationRequest,),
            (creation("a"),),
            then=went(AlreadyExists),
        ),
        Scene(
            "the request of a healthy machine is deleted, if it is the one that was seen",
            doing(let_go),
            (seen.DeleteRemediationRequest,),
            (DELETION,),
            then=none_is_left,
        ),
        Scene(
            "the kind of requests is not served for now: the request may be there",
            doing(let_go, refused={f"{REQUESTS}/a": NOT_SERVED}),
            (seen.DeleteRemediationRequest,),
            (DELETION,),
            then=went(NotFound),
        ),
        Scene(
            "a request that is gone already has been deleted",
            doing(let_go, there=False),
            (seen.DeleteRemediationRequest,),
            (DELETION,),
            then=none_is_left,
        ),
    ),
)
