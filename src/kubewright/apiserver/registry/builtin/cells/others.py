"""The cells of Events, Jobs, requests, bindings and endpoints: those that are more than a field."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from kubewright.apiserver.registry.builtin.cells import NONE, Cell, at, human, since
from kubewright.apiserver.registry.kind import Object
from kubewright.base.clock import parse_rfc3339
from kubewright.wire.gvk import split_api_version

_JOB_WORDS = (
    ("Complete", "Complete"), ("Failed", "Failed"), ("", "Terminating"), ("Suspended", "Suspended"),
    ("FailureTarget", "FailureTarget"), ("SuccessCriteriaMet", "SuccessCriteriaMet"),
)  # fmt: skip


def first_seen(event: Object, now: datetime) -> str:
    return since(event.get("firstTimestamp") or event.get("eventTime"), now)


def last_seen(event: Object, now: datetime) -> str:
    if at(event, "series") is not None:
        return since(at(event, "series.lastObservedTime"), now)
    return since(event["lastTimestamp"], now) if event.get("lastTimestamp") else first_seen(event, now)


def times_seen(event: Object, _now: datetime) -> int:
    """Events of the new API that happened once carry no count."""
    return int(at(event, "series.count") or event.get("count") or 1)


def involved(event: Object, _now: datetime) -> str:
    kind, name = at(event, "involvedObject.kind", "").lower(), at(event, "involvedObject.name", "")
    return f"{kind}/{name}" if name else kind


def event_source(event: Object, _now: datetime) -> str:
    component = at(event, "source.component") or event.get("reportingComponent", "")
    host = at(event, "source.host") or event.get("reportingInstance", "")
    return f"{component}, {host}" if host else component


def event_message(event: Object, _now: datetime) -> str:
    return str(event.get("message") or "").strip()


def requested_duration(request: Object, _now: datetime) -> str:
    seconds = at(request, "spec.expirationSeconds")
    return NONE if seconds is None else human(timedelta(seconds=seconds))


def request_state(request: Object, _now: datetime) -> str:
    """``Approved,Issued``: what was decided on a request for a certificate, and what came of it."""
    found = {condition.get("type") for condition in at(request, "status.conditions", ())}
    words = [next((word for word in ("Denied", "Approved") if word in found), "Pending")]
    words += ["Failed"] if "Failed" in found else []
    words += ["Issued"] if at(request, "status.certificate") else []
    return ",".join(words)


def controller(revision: Object, _now: datetime) -> str:
    """``statefulset.apps/web``: the owner that controls the object."""
    for owner in at(revision, "metadata.ownerReferences", ()):
        if owner.get("controller"):
            group, _ = split_api_version(owner.get("apiVersion", ""))
            kind = owner.get("kind", "").lower()
            return f"{kind}.{group}/{owner.get('name')}" if group else f"{kind}/{owner.get('name')}"
    return NONE


def job_status(job: Object, _now: datetime) -> str:
    true = {c.get("type") for c in at(job, "status.conditions", ()) if c.get("status") == "True"}
    if at(job, "metadata.deletionTimestamp"):
        true.add("")
    return next((word for condition, word in _JOB_WORDS if condition in true), "Running")


def job_completions(job: Object, _now: datetime) -> str:
    done, wanted = at(job, "status.succeeded", 0), at(job, "spec.completions")
    if wanted is not None:
        return f"{done}/{wanted}"
    parallel = at(job, "spec.parallelism", 0)
    return f"{done}/1 of {parallel}" if parallel > 1 else f"{done}/1"


def job_duration(job: Object, now: datetime) -> str:
    start, end = at(job, "status.startTime"), at(job, "status.completionTime")
    if not start:
        return ""
    return human((parse_rfc3339(end) if end else now) - parse_rfc3339(start))


def subjects(kind: str) -> Cell:
    """The names of a binding's subjects of one kind; service accounts with their namespace."""

    def cell(binding: Object, _now: datetime) -> str:
        found = [s for s in at(binding, "subjects", ()) if s.get("kind") == kind]
        return ", ".join(_subject(s) for s in found)

    return cell


def _subject(subject: dict[str, Any]) -> str:
    name = str(subject.get("name", ""))
    return f"{subject.get('namespace', '')}/{name}" if subject.get("kind") == "ServiceAccount" else name


def role(binding: Object, _now: datetime) -> str:
    return f"{at(binding, 'roleRef.kind', '')}/{at(binding, 'roleRef.name', '')}"


def endpoints(obj: Object, _now: datetime) -> str:
    """The first three addresses of Endpoints, with their ports."""
    found = []
    for subset in obj.get("subsets") or ():
        ports = subset.get("ports") or [None]
        ips = [address.get("ip", "") for address in subset.get("addresses") or ()]
        found += [f"{ip}:{port['port']}" if port else ip for port in ports for ip in ips]
    return _some(found)


def slice_ports(obj: Object, _now: datetime) -> str:
    ports = obj.get("ports") or ()
    return _unset(str(port.get("port") or port.get("name") or "*") for port in ports)


def slice_endpoints(obj: Object, _now: datetime) -> str:
    return _unset(ip for endpoint in obj.get("endpoints") or () for ip in endpoint.get("addresses") or ())


def _some(found: list[str]) -> str:
    more = f" + {len(found) - 3} more..." if len(found) > 3 else ""
    return ",".join(found[:3]) + more if found else NONE


def _unset(found: Iterable[str]) -> str:
    known = list(found)
    return _some(known) if known else "<unset>"


def storage_class(obj: Object, _now: datetime) -> str:
    """The class of a volume or claim: the old annotation counts first."""
    old = at(obj, "metadata.annotations", {}).get("volume.beta.kubernetes.io/storage-class")
    return str(old if old is not None else at(obj, "spec.storageClassName", ""))


def claim(volume: Object, _now: datetime) -> str:
    ref = at(volume, "spec.claimRef")
    return f"{ref.get('namespace', '')}/{ref.get('name', '')}" if ref else ""


def if_bound(cell: Cell) -> Cell:
    """Only a claim with a volume has a capacity."""
    return lambda obj, now: cell(obj, now) if at(obj, "spec.volumeName") else ""


def class_name(obj: Object, _now: datetime) -> str:
    """A StorageClass' name, marked when it is the default."""
    given = at(obj, "metadata.annotations", {})
    mark = given.get("storageclass.kubernetes.io/is-default-class") == "true"
    return f"{at(obj, 'metadata.name', '')}{' (default)' if mark else ''}"
