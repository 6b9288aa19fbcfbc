"""Scenes of KubewrightMachines: what their act sends to the API server, and what it asks of the driver."""

from kubewright.api.infra.names import CLOUD_OWNER_ANNOTATION, MACHINE_FINALIZER
from kubewright.api.infra.v1beta1 import KUBEWRIGHT_MACHINE, KubewrightMachine
from kubewright.api.meta import ObjectMeta
from kubewright.driver.contract import Instance
from kubewright.infra.machine import act, steps
from kubewright.infra.machine.seen import Seen
from kubewright.infra.settings import InfraSettings
from kubewright.testing.acts import Act, Happened, Scene, Told, happened
from kubewright.testing.clocks import BEGIN
from kubewright.testing.looks import Shelf, Write

PATH = "/apis/infrastructure.cluster.x-k8s.io/v1beta1/namespaces/n/kubewrightmachines/m"
SEEN = {"uid": "u", "resourceVersion": "101"}
VM = Instance("sim:///here/vm-1", "m")


class Nothing:
    """What an act does not need for these steps."""

    def __init__(self, **what: object) -> None:
        self.__dict__ |= what


def doing(*what: steps.Step):
    async def act_() -> tuple[Shelf, Happened]:
        shelf, told = Shelf(), Told()
        of = KubewrightMachine(metadata=ObjectMeta(name="m", namespace="n", uid="u", resource_version="101"))
        shelf.lay(KUBEWRIGHT_MACHINE, of)
        shared = Nothing(control=shelf.client, clock=shelf.clock, recorder=told)
        actor = act.Actor(shared, None, None)
        seen = Seen(machine=of, settings=InfraSettings(), now=BEGIN)
        return shelf, await happened(actor.perform(seen, steps.Plan(what)), told)

    return act_


ACT = Act(
    "infra.machine.act",
    steps.Step,
    (
        Scene(
            "the finalizer, with the owner of what is in the cloud",
            doing(steps.AddFinalizer("me")),
            (steps.AddFinalizer,),
            (
                Write(
                    "PATCH",
                    PATH,
                    {
                        "metadata": {
                            **SEEN,
                            "annotations": {CLOUD_OWNER_ANNOTATION: "me"},
                            "finalizers": [MACHINE_FINALIZER],
                        }
                    },
                ),
            ),
        ),
        Scene(
            "a VM is put on record",
            doing(steps.Record(VM, "")),
            (steps.Record,),
            (Write("PATCH", PATH, {"spec": {"providerID": "sim:///here/vm-1"}, "metadata": SEEN}),),
        ),
    ),
    left={steps.Call: "no scene yet", steps.RemoveFinalizer: "no scene yet"},
)
