"""Decide which components of a control plane are made from its template. Pure.

Invariants.  A component that exists is never changed, whether a user or this controller made it. If a user
             has written the reference, the component gets the name in it; else it is called ``<control
             plane>-<component>``. A component is created before the control plane refers to it, under a name
             that follows from the control plane, so a second try finds it.
Source       S3-16.
Called by    ``wiring``.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from kubewright.api.cluster.names import MANAGED_BY_ANNOTATION
from kubewright.api.controlplane.names import Component
from kubewright.api.controlplane.v1alpha4 import (
    ComponentSpec,
    NestedControlPlane,
    NestedControlPlaneTemplate,
    TemplateComponents,
)
from kubewright.base import delays, plan
from kubewright.base.plan import Awaited
from kubewright.controlplanes.family import Pause, references


@dataclass(frozen=True, slots=True)
class Seen:
    """One control plane that names a template. ``template`` None: it does not exist.

    ``there``  the components that the control plane names and that exist
    ``pause``  by what it is paused; None: it is not
    """

    plane: NestedControlPlane
    template: NestedControlPlaneTemplate | None = None
    there: frozenset[Component] = frozenset()
    pause: Pause | None = None


@dataclass(frozen=True, slots=True)
class Create:
    """Create a component."""

    component: Component
    name: str
    spec: ComponentSpec


@dataclass(frozen=True, slots=True)
class Refer:
    """Write references into the control plane: names by component."""

    names: Mapping[Component, str]


Step = Create | Refer


@dataclass(frozen=True, slots=True)
class Plan(plan.Plan[Step]):
    """What to create now. ``problem``: why nothing can be created, a sentence."""

    problem: str = ""


FIELDS = {
    Component.ETCD: "etcd",
    Component.API_SERVER: "apiserver",
    Component.CONTROLLER_MANAGER: "controllerManager",
}
"""The field of a control plane's spec that refers to each component."""


def decide(seen: Seen) -> Plan:
    """The plan for what is seen now. An equal ``Seen`` gives an equal plan."""
    plane = seen.plane
    if seen.pause is not None:
        return Plan(because=f"paused: {seen.pause.because}")
    if plane.metadata.deleting:
        return Plan(because="it is being deleted")
    if MANAGED_BY_ANNOTATION in plane.metadata.annotations:
        return Plan(because="another program manages it")
    if seen.template is None:
        name = f"NestedControlPlaneTemplate {plane.spec.template_name}"
        template = Awaited(name, "create it, or correct spec.templateName")
        told = f"there is no {name}"
        return Plan(wake=delays.UNHEARD, because=told, problem=told, awaits=(template,))
    asked = references(plane.spec)
    missing: dict[Component, str] = {}
    steps: list[Step] = []
    for component, spec in specs_of(seen.template).items():
        name = asked[component].name if component in asked else f"{plane.name}-{component}"
        if component not in asked:
            missing[component] = name
        if component not in seen.there:
            steps.append(Create(component, name, spec))
    if missing:
        steps.append(Refer(missing))
    told = "the template has components that it lacks" if steps else "it has all components of its template"
    return Plan(tuple(steps), because=told)


def specs_of(template: NestedControlPlaneTemplate) -> dict[Component, ComponentSpec]:
    """The specs of components that a template has, in the order in which they start."""
    found = template.spec.template.components or TemplateComponents()
    specs: dict[Component, ComponentSpec | None] = {
        Component.ETCD: found.etcd,
        Component.API_SERVER: found.apiserver,
        Component.CONTROLLER_MANAGER: found.controller_manager,
    }
    return {component: spec for component, spec in specs.items() if spec is not None}
