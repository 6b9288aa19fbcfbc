"""One control plane that names a template, one pass: look, decide, act.

Called by    ``runtime.controller``; wired by ``world``.
"""

from collections.abc import Iterable
from contextlib import suppress
from typing import Any, assert_never

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
from kubewright.controlplanes.caches import BY_COMPONENT, Caches
from kubewright.controlplanes.family import KINDS, pause_of
from kubewright.controlplanes.templated.decide import FIELDS, Create, Refer, Seen, Step, decide
from kubewright.kube.informer import Change
from kubewright.kube.patches import onto
from kubewright.runtime.controller import Controller, only, status_alone
from kubewright.runtime.events import ComponentRecorder
from kubewright.runtime.passes import planned
from kubewright.runtime.refused import unless_refused
from kubewright.runtime.result import Result
from kubewright.runtime.world import Environment
from kubewright.wire.errors import AlreadyExists
from kubewright.wire.gvk import Key

CONTROLLER = "nestedcontrolplanetemplate"
BY_TEMPLATE = "nested-control-planes-by-template"
"""Control planes by ``namespace/name`` of the template that they name."""

log = structlog.get_logger(__name__)


class Templated:
    """The reconciler of control planes that name a template."""

    def __init__(self, environment: Environment, caches: Caches) -> None:
        self._client = environment.control.client
        self._caches = caches
        self._recorder = ComponentRecorder(environment.recorder, PLANE_REPORTER)
        self.templates = environment.control.caches.get(NESTED_CONTROL_PLANE_TEMPLATE)
        caches.planes.index(BY_TEMPLATE, _template)

    async def reconcile(self, key: Key) -> Result:
        """One pass.

        Raises:
            ApiError, TransportError: the API server said no for now, or could not be asked.
        """
        plane = self._caches.planes.get(key)
        if plane is None or not plane.spec.template_name:
            return Result.done()
        return await unless_refused(self._pass(plane), plane, self._recorder)

    async def _pass(self, plane: NestedControlPlane) -> Result:
        plan = decide(self.look(plane))
        planned(plan)
        if plan.problem:
            self._recorder.event(plane, "NoTemplate", plan.problem, warning=True)
        for step in plan.steps:
            await self._step(plane, step)
        return Result.later(plan.wake)

    def look(self, plane: NestedControlPlane) -> Seen:
        """Read one control plane, the template that it names, and which of its components exist."""
        family = self._caches.family_of(plane)
        return Seen(
            plane,
            self.templates.get(Key(plane.namespace, plane.spec.template_name)),
            frozenset(family.components),
            pause=pause_of(plane.metadata, cluster=family.cluster),
        )

    async def _step(self, plane: NestedControlPlane, step: Step) -> None:
        match step:
            case Create(component, name, spec):
                owner = owner_of(plane, API_VERSION, NESTED_CONTROL_PLANE.resource.kind)
                meta = {"name": name, "namespace": plane.namespace, "ownerReferences": to_builtins([owner])}
                with suppress(AlreadyExists):  # a user's, or our own that the cache does not show yet
                    await self._client.create(KINDS[component], {"metadata": meta, "spec": to_builtins(spec)})
                    log.info("created", component=name)
            case Refer(names):
                wanted = {FIELDS[component]: {"name": name} for component, name in names.items()}
                body = onto({"spec": wanted}, plane.metadata)
                await self._client.patch(NESTED_CONTROL_PLANE, Key(plane.namespace, plane.name), body)
            case _:
                assert_never(step)


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
