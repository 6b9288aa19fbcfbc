"""Event and Lease: what controllers write about themselves."""

from msgspec import field

from kubewright.api.kinds import Kind
from kubewright.api.meta import KubeObject, Time, Value, visible_fraction, whole_seconds
from kubewright.wire.gvk import Resource


class ObjectReference(Value, frozen=True, kw_only=True):
    """The object that an event is about."""

    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    resource_version: str = ""
    field_path: str = ""


class EventSource(Value, frozen=True, kw_only=True):
    """Who reports an event."""

    component: str = ""
    host: str = ""


class Event(KubeObject, frozen=True, kw_only=True):
    """Something that happened to an object (core ``v1``, the form that ``kubectl describe`` shows)."""

    involved_object: ObjectReference = field(default_factory=ObjectReference)
    reason: str = ""
    message: str = ""
    source: EventSource = field(default_factory=EventSource)
    first_timestamp: Time | None = None
    last_timestamp: Time | None = None
    count: int = 0
    type: str = ""
    event_time: Time | None = None
    reporting_component: str = ""
    reporting_instance: str = ""

    def __post_init__(self) -> None:
        whole_seconds(self, "first_timestamp", "last_timestamp")
        visible_fraction(self, "event_time")


class LeaseSpec(Value, frozen=True, kw_only=True):
    """Who holds a lease, and until when if it does not renew."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: Time | None = None
    renew_time: Time | None = None
    lease_transitions: int | None = None

    def __post_init__(self) -> None:
        visible_fraction(self, "acquire_time", "renew_time")


class Lease(KubeObject, frozen=True, kw_only=True):
    """A lock that expires."""

    spec: LeaseSpec = field(default_factory=LeaseSpec)


EVENT = Kind(Resource("", "v1", "events", "Event", short_names=("ev",)), Event)
LEASE = Kind(Resource("coordination.k8s.io", "v1", "leases", "Lease"), Lease)
