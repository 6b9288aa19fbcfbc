"""Which kubelet a request is for, whether it may be dialled, and what of it is asked. Pure.

Theory.      A kubelet writes its addresses and its port into the status of its Node. The order of kinds of
             addresses is kubeadm's (``--kubelet-preferred-address-types``): addresses before names, because a
             machine's name is often known to nothing but itself. A Node whose status has no port has no
             kubelet that can be asked: simulated ones are so, and those that a user has made by hand.
             The query of a request is read and written anew, as kube-apiserver does: a kubelet gets nothing
             that was not understood here. A kubelet speaks of ``input``, ``output`` and ``error`` where the
             API says ``stdin``, ``stdout`` and ``stderr``. What is missing is found out here, before any
             connection: a container that the pod does not have, a line number that is none.
Invariants.  Who may write a Node's status must not make this server a client of whatever listens near it. So
             no loopback address is dialled, none of the link (the metadata service of a cloud is there), and
             none of many machines; kube-apiserver has the same rule for ``nodes/proxy``. An address by which
             others reach this machine is allowed: a kubelet may run here. Names of pods and containers are
             those of stored objects, so they cannot lead out of the path.
Called by    ``dialing``, ``kubelets``, ``usage``.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Any
from urllib.parse import urlencode

from kubewright.apiserver.registry import refusals
from kubewright.apiserver.schema.causes import Cause
from kubewright.apiserver.schema.node import Object
from kubewright.base.clock import parse_rfc3339
from kubewright.wire.errors import ApiError, BadRequest, ServerError
from kubewright.wire.gvk import Resource
from kubewright.wire.http import Query

PREFERRED = ("InternalIP", "ExternalIP", "Hostname", "InternalDNS", "ExternalDNS")

_BROADCAST = IPv4Address("255.255.255.255")


@dataclass(frozen=True, slots=True)
class Kubelet:
    """The kubelet of one Node. ``trouble`` is what the Node says of why it is not ready, else empty."""

    node: str
    host: str
    port: int
    trouble: str = ""

    @property
    def address(self) -> str:
        """Host and port, as they stand in a URL."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def told(self) -> str:
        """What follows an error of a connection to it: the reason, where its Node knows it already."""
        return f' (node "{self.node}" is not ready: {self.trouble})' if self.trouble else ""


def kubelet_of(node: Mapping[str, Any]) -> Kubelet | None:
    """The kubelet of a Node; None: it has none that could be asked."""
    status = node.get("status") or {}
    endpoint = (status.get("daemonEndpoints") or {}).get("kubeletEndpoint") or {}
    port = endpoint.get("Port") or 0
    addresses = status.get("addresses") or ()
    host = next((each["address"] for kind in PREFERRED for each in addresses if each["type"] == kind), "")
    if not 0 < port <= 65535 or not host:
        return None
    return Kubelet(node["metadata"]["name"], host, port, _trouble(status))


def _trouble(status: Mapping[str, Any]) -> str:
    for each in status.get("conditions") or ():
        if each.get("type") == "Ready" and each.get("status") != "True":
            return str(each.get("message") or each.get("reason") or "it does not say why")
    return ""


def is_address(host: str) -> bool:
    """Whether a host is an IP address, and no name."""
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def may_be_dialled(address: str) -> bool:
    """Whether an address is one of a machine somewhere: Go's ``IsGlobalUnicast``."""
    try:
        found: IPv4Address | IPv6Address = ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(found, IPv6Address) and found.ipv4_mapped is not None:
        found = found.ipv4_mapped
    special = found.is_unspecified or found.is_loopback or found.is_multicast or found.is_link_local
    return not special and found != _BROADCAST


STREAMS = ("attach", "exec", "portforward")
"""The subresources of a Pod that need a connection that is upgraded."""

PODS = Resource("", "v1", "pods", "Pod")
_LOG_OPTIONS = Resource("", "", "podlogoptions", "PodLogOptions")
_FLAGS = (("stdin", "input"), ("stdout", "output"), ("stderr", "error"), ("tty", "tty"))
_KINDS = ("initContainers", "containers", "ephemeralContainers")
_POSITIVE, _NEGATIVE = "must be greater than 0", "must be greater than or equal to 0"
_ONE_TIME = "at most one of `sinceTime` or `sinceSeconds` may be specified"


def container_of(pod: Object, wanted: str) -> str:
    """The container that a request means; without a name the only one of the pod.

    Raises:
        BadRequest: the pod has no such container, or several and the request names none.
    """
    spec, name = pod["spec"], pod["metadata"]["name"]
    names = [str(each["name"]) for kind in _KINDS for each in spec.get(kind) or ()]
    if wanted:
        if wanted not in names:
            raise BadRequest(f"container {wanted} is not valid for pod {name}")
        return wanted
    main = spec.get("containers") or []
    if len(main) == 1:
        return str(main[0]["name"])
    choice = f", choose one of: [{' '.join(names)}]" if main else ""
    raise BadRequest(f"a container name must be specified for pod {name}{choice}")


def log_path(pod: Object, query: Query) -> str:
    """The path of a container's log on its kubelet.

    Raises:
        BadRequest: no container is meant, or a value cannot be read.
        Invalid: values that make no sense.
    """
    given = _first(query)
    name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
    wanted = _log_options(given, name)
    container = container_of(pod, given.get("container", ""))
    return f"/containerLogs/{namespace}/{name}/{container}?{urlencode(sorted(wanted.items()))}"


def stream_path(pod: Object, subresource: str, query: Query) -> str:
    """The path of an exec, attach or port-forward on the kubelet of a pod.

    Raises:
        BadRequest: no container is meant, or a port is none.
    """
    name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
    if subresource == "portforward":
        ports = [_port(value) for key, value in query if key == "ports"]
        asked = [("port", ",".join(ports))] if ports else []
        return f"/portForward/{namespace}/{name}" + (f"?{urlencode(asked)}" if asked else "")
    given = _first(query)
    container = container_of(pod, given.get("container", ""))
    asked = [(theirs, "1") for ours, theirs in _FLAGS if _flag(given, ours)]
    if subresource == "exec":
        asked += [("command", value) for key, value in query if key == "command"]
    return f"/{subresource}/{namespace}/{name}/{container}?{urlencode(asked)}"


def _first(query: Query) -> dict[str, str]:
    return dict(reversed(query))


def _flag(given: Mapping[str, str], name: str) -> bool:
    """As apimachinery reads one from a query: given, and not ``0`` or ``false``."""
    return name in given and given[name].lower() not in ("0", "false")


def _port(text: str) -> str:
    if re.fullmatch(r"[0-9]{1,5}", text) is None:
        raise BadRequest(
            f'cannot convert to []int32: strconv.ParseUint: parsing "{text[:100]}": invalid syntax'
        )
    return str(int(text))


def _number(given: Mapping[str, str], name: str) -> int | None:
    """Raises BadRequest, in the words of Go's library."""
    if not (text := given.get(name, "")):
        return None
    if re.fullmatch(r"[+-]?[0-9]+", text) is None:
        raise BadRequest(f'strconv.ParseInt: parsing "{text[:100]}": invalid syntax')
    if len(text) > 20 or not -(2**63) <= int(text) < 2**63:
        raise BadRequest(f'strconv.ParseInt: parsing "{text[:100]}": value out of range')
    return int(text)


def _log_options(given: Mapping[str, str], name: str) -> dict[str, str]:
    """The options of a log as a kubelet takes them."""
    wanted = {each: "true" for each in ("follow", "previous", "timestamps") if _flag(given, each)}
    numbers = {each: _number(given, each) for each in ("sinceSeconds", "tailLines", "limitBytes")}
    wanted |= {each: str(number) for each, number in numbers.items() if number is not None}
    if since := given.get("sinceTime", ""):
        wanted["sinceTime"] = _time(since).strftime("%Y-%m-%dT%H:%M:%SZ")
    causes = list(_wrong_with(numbers, bool(since), "stream" in given))
    if causes:
        raise refusals.invalid(_LOG_OPTIONS, name, causes)
    return wanted


def _time(text: str) -> datetime:
    try:
        return parse_rfc3339(text)
    except ValueError:
        raise BadRequest(
            f'parsing time "{text[:100]}" as "2006-01-02T15:04:05Z07:00": it is no such time'
        ) from None


def _wrong_with(numbers: Mapping[str, int | None], since_time: bool, stream: bool) -> Sequence[Cause]:
    """Of one log both streams are given: which one, ``stream`` would say, is an alpha feature of 1.36."""
    tail, most, seconds = numbers["tailLines"], numbers["limitBytes"], numbers["sinceSeconds"]
    found = []
    if tail is not None and tail < 0:
        found.append(Cause("FieldValueInvalid", "tailLines", f"Invalid value: {tail}: {_NEGATIVE}"))
    if most is not None and most < 1:
        found.append(Cause("FieldValueInvalid", "limitBytes", f"Invalid value: {most}: {_POSITIVE}"))
    if seconds is not None and since_time:
        found.append(Cause("FieldValueForbidden", "[]", f"Forbidden: {_ONE_TIME}"))
    elif seconds is not None and seconds < 1:
        found.append(Cause("FieldValueInvalid", "sinceSeconds", f"Invalid value: {seconds}: {_POSITIVE}"))
    if stream:
        found.append(Cause("FieldValueForbidden", "stream", "Forbidden: may not be specified"))
    return found


_WORDS: Mapping[int, tuple[str, str]] = {
    401: ("Unauthorized", "the server has asked for the client to provide credentials"),
    404: ("NotFound", "the server could not find the requested resource"),
    405: ("MethodNotAllowed", "the server does not allow this method on the requested resource"),
    409: ("Conflict", "the server reported a conflict"),
    422: ("Invalid", "the server rejected our request due to an error in our request"),
    429: ("TooManyRequests", "the server has received too many requests and has asked us to try again later"),
    503: ("ServiceUnavailable", "the server is currently unable to handle the request"),
    504: ("Timeout", "the server was unable to return a response in the time allotted, but may still be "
                     "processing the request"),
}  # fmt: skip


def refused_log(code: int, said: str, name: str) -> ApiError:
    """The error of a log that a kubelet does not give, in kube-apiserver's words."""
    if code == 500:
        return ServerError(f"Internal error occurred: {said}")
    if code == 400:
        return BadRequest(said)
    if code == 403:  # it says who may not do what there
        reason, words = "Forbidden", said
    elif code in _WORDS:
        reason, words = _WORDS[code]
    elif code > 500:
        quoted = said.replace('"', '\\"')
        reason, words = (
            "InternalError",
            f'an error on the server ("{quoted}") has prevented the request from succeeding',
        )
    else:
        reason = ""
        words = f"the server responded with the status code {code} but did not return more information"
    details = {"name": name, "kind": "pods/log"}
    return ApiError(f"{words} ( pods/log {name})", code=code, reason=reason, details=details)
