"""One control plane that names a template, one pass: look, decide, act.

Called by    ``runtime.controller``; wired by ``controlplanes.wiring``.
"""

from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import structlog
from msgspec import to_builtins

from kubewright.api.controlplane.names import PLANE_REPORTER
from kubewright.api.controlplane.v1alpha4 import (
    API_VERSION,
    NESTED_CONTROL_PLANE,
    NESTED_CONTROL_PLANE_TEMPLATE,
    NestedControlPlane,
)
from kubewright.api.meta import owner_of
from kubewright.base.plan import Event
from kubewright.controlplanes.caches import BY_COMPONENT, Caches
from kubewright.controlplanes.family import KINDS, pause_of
from kubewright.controlplanes.templated.decide import FIELDS, Create, Plan, Refer, Seen, Step, decide
from kubewright.kube.informer import Change
from kubewright.runtime.controller import Controller, only, status_alone
from kubewright.runtime.events import ComponentRecorder
from kubewright.runtime.kernel import Effect, ObjectReconciler, Outcome
from kubewright.runtime.world import Environment
from kubewright.wire.errors import AlreadyExists
from kubewright.wire.gvk import Key

CONTROLLER = "nestedcontrolplanetemplate"
BY_TEMPLATE = "nested-control-planes-by-template"
"""Control planes by ``namespace/name`` of the template that they name."""

log = structlog.get_logger(__name__)


class Templated(ObjectReconciler[NestedControlPlane, Seen, Plan]):
    """The reconciler of control planes that name a template."""

    def __init__(self, environment: Environment, caches: Caches) -> None:
        recorder = ComponentRecorder(environment.recorder, PLANE_REPORTER)
        super().__init__(environment.control.client, caches.planes, recorder)
        self._caches = caches
        self.templates = environment.control.caches.get(NESTED_CONTROL_PLANE_TEMPLATE)
        caches.planes.index(BY_TEMPLATE, _template)

    def get(self, key: Key) -> NestedControlPlane | None:
        """A control plane, if it names a template."""
        plane = self.objects.get(key)
        return plane if plane is not None and plane.spec.template_name else None

    async def look(self, found: NestedControlPlane) -> Seen:
        """Read one control plane, the template that it names, and which of its components exist."""
        family = self._caches.family_of(found)
        return Seen(
            found,
            self.templates.get(Key(found.namespace, found.spec.template_name)),
            frozenset(family.components),
            pause=pause_of(found.metadata, cluster=family.cluster),
        )

    def decide(self, seen: Seen) -> Plan:
        """As ``decide.decide``."""
        return decide(seen)

    def act(self, seen: Seen, step: Step, outcome: Outcome) -> Effect:
        """What performs a step."""
        match step:
            case Create():
                return self._create(seen.plane, step)
            case Refer(names):
                wanted = {FIELDS[component]: {"name": name} for component, name in names.items()}
                return self.patch(outcome, {"spec": wanted})

    def events(self, seen: Seen, plan: Plan, status: Any, *, written: bool) -> Iterable[Event]:
        """That there is no template, each time that one is looked for."""
        if plan.problem:
            yield Event("NoTemplate", plan.problem, warning=True)

    async def _create(self, plane: NestedControlPlane, step: Create) -> None:
        owner = owner_of(plane, API_VERSION, NESTED_CONTROL_PLANE.resource.kind)
        meta = {"name": step.name, "namespace": plane.namespace, "ownerReferences": to_builtins([owner])}
        body = {"metadata": meta, "spec": to_builtins(step.spec)}
        with suppress(AlreadyExists):  # a user's, or our own that the cache does not show yet
            await self.client.create(KINDS[step.component], body)
            log.info("created", component=step.name)


def wire(environment: Environment) -> Controller:
    """The controller, with watches on everything that a decision reads."""
    caches = Caches(environment.control.caches)
    templated = Templated(environment, caches)
    controller = Controller(CONTROLLER, templated, environment.clock, metrics=environment.metrics)

    def of_template(change: Change[Any]) -> Iterable[Key]:
        return caches.planes.keys_by(BY_TEMPLATE, str(change.key))

    for component, informer in caches.components.items():

        def gone(change: Change[Any], component: str = str(component)) -> Iterable[Key]:
            there = change.new is not None
            return () if there else caches.planes.keys_by(BY_COMPONENT, f"{component}/{change.key}")

        controller.watches(informer, gone)
    controller.watches(caches.planes, only(lambda change: not status_alone(change)))
    controller.watches(caches.clusters, caches.planes_of_cluster)
    return controller.watches(templated.templates, of_template)


def _template(plane: NestedControlPlane) -> tuple[str, ...]:
    name = plane.spec.template_name
    return (str(Key(plane.namespace, name)),) if name else ()
