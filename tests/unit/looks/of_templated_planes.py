"""Scenes of a control plane that names a template: what the caches hold, and what the look must say."""

from collections.abc import Awaitable, Callable
from typing import Any

from kubewright.api.controlplane.names import Component
from kubewright.api.controlplane.v1alpha4 import NESTED_CONTROL_PLANE_TEMPLATE
from kubewright.controlplanes.family import Pause
from kubewright.controlplanes.templated.decide import Seen
from kubewright.controlplanes.templated.wiring import Templated
from kubewright.testing.looks import Look, Named, Scene

from . import planes
from .planes import Planes, There, a_cluster, a_component, plane


def a_template(name: str = "t", **components: Any) -> There:
    made = {"metadata": planes.meta(name), "spec": {"template": {"spec": {}, "components": components}}}
    return NESTED_CONTROL_PLANE_TEMPLATE, NESTED_CONTROL_PLANE_TEMPLATE.from_plain(made)


def scene(of: Any, *there: There) -> Callable[[], Awaitable[Seen]]:
    async def look() -> Seen:
        shelf = Planes()
        reconciler = Templated(shelf.environment, shelf.in_caches)
        await shelf.holds(*there)
        return await reconciler.look(of)

    return look


FOUND = plane(templateName="t")
LOOK = Look(
    "controlplanes.templated.wiring",
    Seen,
    (
        Scene(
            "there is no template, and no component",
            scene(FOUND, a_template("other")),
            {"plane": FOUND, "template": None, "there": frozenset(), "pause": None},
        ),
        Scene(
            "its template, and components that it names",
            scene(
                plane(templateName="t", named={"etcd": {"name": "e"}}),
                a_template(),
                a_component(Component.ETCD),
                a_component(Component.API_SERVER),
            ),
            {"plane": plane(templateName="t", named={"etcd": {"name": "e"}}), "template": Named("t")}
            | {"there": frozenset((Component.ETCD,))},
        ),
        Scene(
            "its Cluster is paused",
            scene(FOUND, a_cluster(paused=True)),
            {"pause": Pause("Cluster c has spec.paused")},
        ),
        Scene(
            "it is paused itself",
            scene(plane(templateName="t", of=planes.PAUSED)),
            {"pause": Pause("it has the annotation cluster.x-k8s.io/paused")},
        ),
    ),
)
