"""What managers ask servers and the cloud to remove, as steps that invariants judge.

Theory.      A commit shows that an object is gone, not how that was asked for: whether a pod was evicted or
             deleted, with which grace, and whether the request named the very object that its sender had
             seen. The request shows it. It is judged when it arrives, whatever the server then says: one
             that is refused by luck is as wrong as one that is carried out.
Called by    ``world`` (for each server) and ``managers`` (for driver calls); heard by ``invariants``.
"""

import orjson

from kubewright.driver.contract import MachineRequest
from kubewright.wire.http import Request
from simulation.journal import PODS, VMS, Journal, Removal
from simulation.tally import MANAGER

EVICTION = "eviction"


def heard(journal: Journal, client: str, request: Request) -> None:
    """A server got a request: tell the journal if a manager asks for a removal."""
    if client.startswith(MANAGER) and (found := removal_of(client, request)) is not None:
        journal.asked(found)


def called(journal: Journal, client: str, request: MachineRequest) -> None:
    """A manager asks the cloud to delete a VM."""
    key = f"{request.namespace}/{request.name}"
    journal.asked(Removal(client, VMS, key, request.owner_uid, vm=request.provider_id))


def removal_of(client: str, request: Request) -> Removal | None:
    """The removal of one object that a request asks for, if it does."""
    resource, key, part = _place(request.path)
    evicts = request.method == "POST" and (resource, part) == (PODS, EVICTION)
    if not evicts and (request.method != "DELETE" or part or not key):
        return None
    body = orjson.loads(request.body) if request.body else {}
    options = body.get("deleteOptions", {}) if evicts else body
    fixed = options.get("preconditions", {})
    return Removal(
        client,
        resource,
        key,
        uid=fixed.get("uid", ""),
        version=fixed.get("resourceVersion", ""),
        grace=options.get("gracePeriodSeconds"),
        eviction=evicts,
    )


def _place(path: str) -> tuple[str, str, str]:
    """Resource with its group, key and subresource of a path; empty where it names none."""
    _, root, *rest = path.split("/")
    group = rest[0] if root == "apis" and rest else ""
    parts = rest[2 if group else 1 :]
    namespace = ""
    if len(parts) > 2 and parts[0] == "namespaces":
        namespace, parts = parts[1], parts[2:]
    resource, name, part = (*parts, "", "", "")[:3]
    key = f"{namespace}/{name}" if namespace and name else name
    return f"{resource}.{group}" if group else resource, key, part
