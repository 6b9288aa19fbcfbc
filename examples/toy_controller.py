"""A toy controller on the kernel: each Greeting gets a ConfigMap with its words, and says when it has it.

The same parts as in every controller, where each is a file: seen, look, decide, act, wiring. See
ARCHITECTURE.md, "How every controller is built". tests/api/runtime/test_toy_controller.py runs it.
"""

from dataclasses import dataclass

from kubewright.api.core import CONFIG_MAP, ConfigMap
from kubewright.api.kinds import Kind
from kubewright.api.meta import KubeObject, ObjectMeta, Value, owner_of
from kubewright.base.plan import Plan
from kubewright.kube.patches import onto
from kubewright.runtime.controller import Controller, only, status_alone
from kubewright.runtime.kernel import Effect, ObjectReconciler, Outcome
from kubewright.runtime.world import Environment
from kubewright.wire.gvk import Key, Resource


class GreetingSpec(Value, frozen=True, kw_only=True):
    name: str = ""


class GreetingStatus(Value, frozen=True, kw_only=True):
    ready: bool = False


class Greeting(KubeObject, frozen=True, kw_only=True):
    spec: GreetingSpec = GreetingSpec()
    status: GreetingStatus = GreetingStatus()


GREETING = Kind(Resource("toys.example.com", "v1", "greetings", "Greeting"), Greeting)


# seen: all that decides, as one value; and what may be done
@dataclass(frozen=True, slots=True)
class Seen:
    greeting: Greeting
    words: ConfigMap | None

    @property
    def wanted(self) -> dict[str, str]:
        return {"words": f"Hello, {self.greeting.spec.name}!"}


@dataclass(frozen=True, slots=True)
class Create:
    data: dict[str, str]


@dataclass(frozen=True, slots=True)
class Change:
    meta: ObjectMeta
    data: dict[str, str]


Step = Create | Change


# decide: pure
def decide(seen: Seen) -> Plan[Step]:
    if seen.words is None:
        return Plan((Create(seen.wanted),), because="it has no words yet")
    if seen.words.data != seen.wanted:
        return Plan((Change(seen.words.metadata, seen.wanted),), because="its words are old")
    return Plan(because="its words are there")


# look and act: one pass
class Greetings(ObjectReconciler[Greeting, Seen, Plan[Step]]):
    def __init__(self, environment: Environment) -> None:
        control = environment.control
        super().__init__(control.client, control.caches.get(GREETING), environment.recorder)
        self.words = control.caches.get(CONFIG_MAP)

    async def look(self, found: Greeting) -> Seen:
        return Seen(found, self.words.get(Key(found.namespace, found.name)))

    def decide(self, seen: Seen) -> Plan[Step]:
        return decide(seen)

    def act(self, seen: Seen, step: Step, outcome: Outcome) -> Effect:
        key = Key(seen.greeting.namespace, seen.greeting.name)
        match step:
            case Create(data):
                owner = owner_of(seen.greeting, GREETING.resource.api_version, GREETING.resource.kind)
                meta = ObjectMeta(name=key.name, namespace=key.namespace, owner_references=(owner,))
                return self.client.create(CONFIG_MAP, ConfigMap(metadata=meta, data=data))
            case Change(meta, data):
                return self.client.patch(CONFIG_MAP, key, onto({"data": data}, meta))

    def status(self, seen: Seen, plan: Plan[Step], outcome: Outcome) -> GreetingStatus:
        return GreetingStatus(ready=not plan.steps)


# wiring: which changes give a Greeting a pass
def wire(environment: Environment) -> Controller:
    greetings = Greetings(environment)
    controller = Controller("greeting", greetings, environment.clock, metrics=environment.metrics)
    controller.watches(greetings.objects, only(lambda change: not status_alone(change)))
    return controller.watches(greetings.words)
