"""Cells of ``kubectl get``: small functions from an object and the time to what is printed.

Theory.      Most cells show a field, a count or an age; this file makes those, and ``columns`` puts them
             together. Of single kinds are those that are more than a field. The status of a Pod is the one
             that users look at most, so it is exactly kubectl's: init containers come first, in order, and
             the first that is not done gives the status. Then the containers, from the last to the first:
             each that waits or has ended overwrites the status, so the first of them decides.
             What no controller has written yet shows as kube-apiserver shows it then, such as ``<unknown>``
             for a metric that was never measured.
Invariants.  A cell never fails: objects may lack fields, and a list must print anyway.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from kubewright.apiserver.schema.node import Object, at
from kubewright.base.clock import parse_rfc3339
from kubewright.base.durations import human
from kubewright.wire.gvk import split_api_version

Cell = Callable[[Object, datetime], Any]
NONE = "<none>"


def since(text: object, now: datetime) -> str:
    """The age of a time in RFC 3339; ``<unknown>`` when there is none, ``<invalid>`` when it is no time."""
    if not text:
        return "<unknown>"
    try:
        return human(now - parse_rfc3339(str(text)))
    except ValueError:
        return "<invalid>"


def field(path: str, otherwise: Any = "") -> Cell:
    """The field itself, or ``otherwise`` when it is missing."""
    return lambda obj, _now: at(obj, path, otherwise)


def text(path: str, otherwise: str = NONE) -> Cell:
    """The field as text, or ``otherwise`` when it is missing or empty."""
    return lambda obj, _now: str(at(obj, path) or otherwise)


def number(path: str) -> Cell:
    return field(path, 0)


def count(*paths: str) -> Cell:
    """The total number of items at the paths."""
    return lambda obj, _now: sum(len(at(obj, path, ())) for path in paths)


def age(path: str = "metadata.creationTimestamp") -> Cell:
    return lambda obj, now: since(at(obj, path), now)


def ratio(part: str, whole: str) -> Cell:
    """``2/3``: a count of a total."""
    return lambda obj, _now: f"{at(obj, part, 0)}/{at(obj, whole, 0)}"


def names(path: str, key: str) -> Cell:
    """One field of each item of a list, with commas."""
    return lambda obj, _now: ",".join(str(item.get(key, "")) for item in at(obj, path, ()))


def labels(path: str) -> Cell:
    """A map of labels as ``a=b,c=d``, sorted; ``<none>`` when empty."""
    return lambda obj, _now: format_labels(at(obj, path, {})) or NONE


def format_labels(given: Mapping[str, str]) -> str:
    return ",".join(f"{name}={value}" for name, value in sorted(given.items()))


def selector(path: str) -> Cell:
    """A label selector as kubectl writes it: ``app=web,tier in (a,b),!legacy``."""
    return lambda obj, _now: format_selector(at(obj, path, {})) or NONE


_REQUIREMENTS = {"In": "{} in ({})", "NotIn": "{} notin ({})", "Exists": "{}", "DoesNotExist": "!{}"}


def format_selector(given: Mapping[str, Any]) -> str:
    parts = [(name, f"{name}={value}") for name, value in (given.get("matchLabels") or {}).items()]
    for rule in given.get("matchExpressions") or ():
        form = _REQUIREMENTS.get(rule.get("operator"), "{}")
        parts.append(
            (
                rule.get("key", ""),
                form.format(rule.get("key", ""), ",".join(sorted(rule.get("values") or ()))),
            )
        )
    return ",".join(words for _, words in sorted(parts))


_MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}


def access_modes(path: str) -> Cell:
    """``RWO,ROX``: in a fixed order, each once."""
    return lambda obj, _now: ",".join(short for mode, short in _MODES.items() if mode in at(obj, path, ()))


def unless_deleting(path: str) -> Cell:
    """The phase, or ``Terminating`` once the object is being deleted."""
    return lambda obj, _now: "Terminating" if at(obj, "metadata.deletionTimestamp") else at(obj, path, "")


_ROLE_PREFIX = "node-role.kubernetes.io/"
_ROLE_LABEL = "kubernetes.io/role"


def node_status(node: Object, _now: datetime) -> str:
    """``Ready``, ``NotReady`` or ``Unknown``, and ``SchedulingDisabled`` when cordoned."""
    ready = [c for c in at(node, "status.conditions", ()) if c.get("type") == "Ready"]
    word = "Unknown" if not ready else "Ready" if ready[-1].get("status") == "True" else "NotReady"
    return f"{word},SchedulingDisabled" if at(node, "spec.unschedulable") else word


def node_roles(node: Object, _now: datetime) -> str:
    """What the role labels say, sorted."""
    found = set()
    for label, value in at(node, "metadata.labels", {}).items():
        if label.startswith(_ROLE_PREFIX):
            found.add(label.removeprefix(_ROLE_PREFIX))
        elif label == _ROLE_LABEL:
            found.add(value)
    return ",".join(sorted(found - {""})) or NONE


def node_address(wanted: str) -> Cell:
    """The first address of a type."""

    def cell(node: Object, _now: datetime) -> str:
        found = (a.get("address", "") for a in at(node, "status.addresses", ()) if a.get("type") == wanted)
        return next(found, NONE)

    return cell


def node_kernel(node: Object, _now: datetime) -> str:
    """The kernel's version, and the architecture where it is known."""
    info: dict[str, Any] = at(node, "status.nodeInfo", {})
    version = info.get("kernelVersion") or "<unknown>"
    return f"{version} ({info['architecture']})" if info.get("architecture") else version


def service_cluster_ip(service: Object, _now: datetime) -> str:
    ips = at(service, "spec.clusterIPs", ()) or [at(service, "spec.clusterIP", NONE)]
    return str(ips[0])


def service_external_ip(service: Object, _now: datetime) -> str:
    own = list(at(service, "spec.externalIPs", ()))
    match at(service, "spec.type"):
        case "ClusterIP" | "NodePort":
            return ",".join(own) or NONE
        case "LoadBalancer":
            ingress = at(service, "status.loadBalancer.ingress", ())
            given = {entry.get("ip") or entry.get("hostname") for entry in ingress} - {None, ""}
            return ",".join([*sorted(given), *own]) or "<pending>"
        case "ExternalName":
            return str(at(service, "spec.externalName", ""))
    return "<unknown>"


def service_ports(service: Object, _now: datetime) -> str:
    def one(port: dict[str, Any]) -> str:
        node_port = f":{port['nodePort']}" if port.get("nodePort") else ""
        return f"{port.get('port')}{node_port}/{port.get('protocol', 'TCP')}"

    return ",".join(one(port) for port in at(service, "spec.ports", ())) or NONE


Status = Mapping[str, Any]
_OVER = ("Succeeded", "Failed")


@dataclass(slots=True)
class _Summary:
    """What is known from the containers looked at so far."""

    reason: str
    ready: int = 0
    restarts: int = 0
    last_restart: str = ""

    def restarted(self, status: Status) -> None:
        self.restarts += status.get("restartCount", 0)
        self.last_restart = max(self.last_restart, at(status, "lastState.terminated.finishedAt", ""))


def _ended(end: Status, prefix: str = "") -> str:
    """How a container ended: its reason, else the signal, else the exit code."""
    if end.get("reason"):
        return f"{prefix}{end['reason']}"
    if end.get("signal"):
        return f"{prefix}Signal:{end['signal']}"
    return f"{prefix}ExitCode:{end.get('exitCode', 0)}"


def _sidecars(pod: Object) -> set[str]:
    """Init containers that go on running beside the others."""
    init: Iterable[Status] = at(pod, "spec.initContainers", ())
    return {c.get("name", "") for c in init if c.get("restartPolicy") == "Always"}


def _init_word(status: Status, done: int, total: int) -> str:
    """The status of a pod with an init container that is not done."""
    if (end := at(status, "state.terminated")) is not None:
        return _ended(end, "Init:")
    waiting = at(status, "state.waiting.reason", "")
    if waiting and waiting != "PodInitializing":
        return f"Init:{waiting}"
    return f"Init:{done}/{total}"


def _add_init_containers(pod: Object, summary: _Summary) -> bool:
    """Add the init containers in order; true while one of them is not done."""
    sidecars = _sidecars(pod)
    total = len(at(pod, "spec.initContainers", ()))
    for done, status in enumerate(at(pod, "status.initContainerStatuses", ())):
        summary.restarted(status)
        sidecar = status.get("name") in sidecars
        if at(status, "state.terminated.exitCode") == 0:
            continue
        if sidecar and status.get("started"):
            summary.ready += bool(status.get("ready"))
            continue
        summary.reason = _init_word(status, done, total)
        return True
    return False


def _add_containers(pod: Object, summary: _Summary) -> None:
    sidecars = _sidecars(pod)
    summary.restarts, summary.last_restart = 0, ""
    for status in at(pod, "status.initContainerStatuses", ()):
        if status.get("name") in sidecars:
            summary.restarted(status)
    running, failed = False, ""
    for status in reversed(at(pod, "status.containerStatuses", ())):
        summary.restarted(status)
        end = at(status, "state.terminated")
        if waiting := at(status, "state.waiting.reason", ""):
            summary.reason = waiting
        elif end is not None:
            summary.reason = _ended(end)
            failed = summary.reason if end.get("exitCode") else failed
        elif status.get("ready") and at(status, "state.running") is not None:
            running = True
            summary.ready += 1
    if summary.reason == "Completed":
        summary.reason = _completed(pod, running, failed)


def _completed(pod: Object, running: bool, failed: str) -> str:
    """One container is done; the others decide what the pod is."""
    if running and _condition(pod, "Ready") == "True":
        return "Running"
    return failed or ("NotReady" if running else "Completed")


def _condition(pod: Object, wanted: str, key: str = "status") -> str:
    found = (c.get(key, "") for c in at(pod, "status.conditions", ()) if c.get("type") == wanted)
    return str(next(found, ""))


def _summary(pod: Object) -> _Summary:
    summary = _Summary(at(pod, "status.reason", "") or at(pod, "status.phase", ""))
    if _condition(pod, "PodScheduled", "reason") == "SchedulingGated":
        summary.reason = "SchedulingGated"
    if not _add_init_containers(pod, summary) or _condition(pod, "Initialized") == "True":
        _add_containers(pod, summary)
    return summary


def pod_ready(pod: Object, _now: datetime) -> str:
    return f"{_summary(pod).ready}/{len(at(pod, 'spec.containers', ())) + len(_sidecars(pod))}"


def pod_status(pod: Object, _now: datetime) -> str:
    if at(pod, "metadata.deletionTimestamp"):
        if at(pod, "status.reason") == "NodeLost":
            return "Unknown"
        if at(pod, "status.phase") not in _OVER:
            return "Terminating"
    return _summary(pod).reason


def pod_restarts(pod: Object, now: datetime) -> str:
    summary = _summary(pod)
    if summary.restarts and summary.last_restart:
        return f"{summary.restarts} ({since(summary.last_restart, now)} ago)"
    return str(summary.restarts)


def pod_ip(pod: Object, _now: datetime) -> str:
    first: Status = next(iter(at(pod, "status.podIPs", ())), {})
    return str(first.get("ip") or at(pod, "status.podIP", "") or NONE)


def readiness_gates(pod: Object, _now: datetime) -> str:
    gates = at(pod, "spec.readinessGates", ())
    passed = sum(_condition(pod, gate.get("conditionType", "")) == "True" for gate in gates)
    return f"{passed}/{len(gates)}" if gates else NONE


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


def involved_object(event: Object, _now: datetime) -> str:
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


def revision_controller(revision: Object, _now: datetime) -> str:
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


def binding_subjects(kind: str) -> Cell:
    """The names of a binding's subjects of one kind; service accounts with their namespace."""

    def cell(binding: Object, _now: datetime) -> str:
        found = [s for s in at(binding, "subjects", ()) if s.get("kind") == kind]
        return ", ".join(_subject(s) for s in found)

    return cell


def _subject(subject: dict[str, Any]) -> str:
    name = str(subject.get("name", ""))
    return f"{subject.get('namespace', '')}/{name}" if subject.get("kind") == "ServiceAccount" else name


def binding_role(binding: Object, _now: datetime) -> str:
    return f"{at(binding, 'roleRef.kind', '')}/{at(binding, 'roleRef.name', '')}"


def endpoint_addresses(obj: Object, _now: datetime) -> str:
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


def volume_claim(volume: Object, _now: datetime) -> str:
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


SHOWN = 2
"""Metrics of an autoscaler that are shown by name; of more, the number."""


def scale_target(scaler: Object, _now: datetime) -> str:
    return f"{at(scaler, 'spec.scaleTargetRef.kind', '')}/{at(scaler, 'spec.scaleTargetRef.name', '')}"


def least_pods(scaler: Object, _now: datetime) -> str:
    return str(at(scaler, "spec.minReplicas", "<unset>"))


def scaler_metrics(scaler: Object, _now: datetime) -> str:
    """``cpu: 20%/80%, memory: <unknown>/1Gi``: of each metric what is measured, and what is wanted."""
    wanted = at(scaler, "spec.metrics", ())
    if not wanted:
        return NONE
    measured = at(scaler, "status.currentMetrics", ())
    found = [
        _metric(each, measured[index] if index < len(measured) else {}) for index, each in enumerate(wanted)
    ]
    more = f" + {len(found) - SHOWN} more..." if len(found) > SHOWN else ""
    return ", ".join(found[:SHOWN]) + more


def _metric(wanted: Mapping[str, Any], measured: Mapping[str, Any]) -> str:
    kind = str(wanted.get("type", ""))
    source = kind[:1].lower() + kind[1:]
    goal, current = at(wanted, f"{source}.target", {}), at(measured, f"{source}.current", {})
    shown = f"{_amount(current) or '<unknown>'}/{_amount(goal) or '<auto>'}"
    if kind in ("Resource", "ContainerResource"):
        return f"{at(wanted, f'{source}.name', '')}: {shown}"
    return f"{shown} (avg)" if "averageValue" in goal else shown


def _amount(value: Mapping[str, Any]) -> str:
    if value.get("averageUtilization") is not None:
        return f"{value['averageUtilization']}%"
    return str(value.get("averageValue") or value.get("value") or "")


def ingress_hosts(ingress: Object, _now: datetime) -> str:
    found = [rule["host"] for rule in at(ingress, "spec.rules", ()) if rule.get("host")]
    more = f" + {len(found) - 3} more..." if len(found) > 3 else ""
    return ",".join(found[:3]) + more if found else "*"


def ingress_addresses(ingress: Object, _now: datetime) -> str:
    found = at(ingress, "status.loadBalancer.ingress", ())
    return ",".join(each.get("ip") or each.get("hostname") or "" for each in found)


def ingress_ports(ingress: Object, _now: datetime) -> str:
    return "80, 443" if at(ingress, "spec.tls") else "80"


def class_parameters(ingress_class: Object, _now: datetime) -> str:
    """``kind.group/name`` of what has the parameters."""
    found = at(ingress_class, "spec.parameters")
    if not found:
        return NONE
    group = f".{found['apiGroup']}" if found.get("apiGroup") else ""
    return f"{found.get('kind', '')}{group}/{found.get('name', '')}"


def resources_used(*, limits: bool) -> Cell:
    """``pods: 3/10``: of what a quota counts, how much is used; either the limits or everything else."""

    def shown(quota: Object) -> Iterator[str]:
        hard, spent = at(quota, "status.hard", {}), at(quota, "status.used", {})
        for name in sorted(hard):
            if name.startswith("limits") == limits:
                yield f"{name}: {spent.get(name, 0)}/{hard[name]}"

    return lambda quota, _now: ", ".join(shown(quota))


def claim_state(claim: Object, _now: datetime) -> str:
    """``allocated,reserved``; ``pending`` while no devices are allocated."""
    states = [word for word, there in _states(claim) if there]
    return ",".join(states) or "pending"


def _states(claim: Object) -> Iterator[tuple[str, bool]]:
    yield "deleted", bool(at(claim, "metadata.deletionTimestamp"))
    yield "allocated", at(claim, "status.allocation") is not None
    yield "reserved", bool(at(claim, "status.reservedFor"))
