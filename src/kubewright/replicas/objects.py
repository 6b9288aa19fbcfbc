"""What the objects of every API have in common, by which generic code reads them. Pure.

Theory.      A set in machine.sapcloud.io, Cluster API and apps/v1 has the same fields for the same things:
             ``spec.replicas``, ``spec.selector``, ``spec.template.metadata``, ``spec.minReadySeconds``. They
             are read as they are; a policy only says what differs (``set.policy``).
Called by    ``set`` and ``deployment``, as bounds of their type variables.
"""

from typing import Any, Protocol, TypeVar

from msgspec import structs

from kubewright.api.meta import LabelSelector, Object, ObjectMeta

INVALID = "InvalidSpec"
"""Reason of an event and of a condition: the spec is invalid, and the object is not reconciled."""

REPLICA_FAILURE = "ReplicaFailure"
"""The condition of a set that cannot create or delete members; its deployment shows a copy."""


class Template(Protocol):
    """What new members look like, as far as all APIs have the same fields."""

    @property
    def metadata(self) -> ObjectMeta: ...


class SetSpec(Protocol):
    """What a set should be."""

    @property
    def replicas(self) -> int: ...

    @property
    def selector(self) -> LabelSelector | None: ...

    @property
    def template(self) -> Template: ...

    @property
    def min_ready_seconds(self) -> int: ...


class SetObject(Object, Protocol):
    """A set. Its status is a Struct of its API's own."""

    @property
    def spec(self) -> SetSpec: ...

    @property
    def status(self) -> Any: ...


class DeploymentSpec(SetSpec, Protocol):
    """What a deployment should be."""

    @property
    def paused(self) -> bool: ...

    @property
    def revision_history_limit(self) -> int | None: ...

    @property
    def progress_deadline_seconds(self) -> int | None: ...


class DeploymentObject(Object, Protocol):
    """A deployment. Its status has the counts of replicas, ``observed_generation``, ``collision_count``, and
    ``conditions`` with a ``last_update_time``."""

    @property
    def spec(self) -> DeploymentSpec: ...

    @property
    def status(self) -> Any: ...


T = TypeVar("T")
S = TypeVar("S", bound=SetObject)


def changed(value: T, **fields: Any) -> T:
    """A Struct that is known by its protocol only, with some fields changed."""
    struct: Any = value
    after: T = structs.replace(struct, **fields)
    return after


def with_replicas(each: S, replicas: int) -> S:
    """The set with another number of replicas."""
    return changed(each, spec=changed(each.spec, replicas=replicas))
