"""Requests of managers as entries of the journal: removals as they arrive, and writes when they are carried
out.

Theory.      A commit shows that an object is gone, not how that was asked for: whether a pod was evicted or
             deleted, with which grace, and whether the request named the very object that its sender had
             seen. The request shows it. It is judged when it arrives, whatever the server then says: one
             that is refused by luck is as wrong as one that is carried out. Nor does a commit show which of
             the writes to it are a manager's; worlds whose rules ask that enter the writes too
             (``carried_out``).
Called by    ``world`` (for each server) and ``managers`` (for driver calls); judged by ``rules``.
"""

import orjson

from kubewright.driver.contract import MachineRequest
from kubewright.wire.http import Request, Response
from simulation.journal import DELETES, EVICTS, PODS, POST, VMS, Asked, Journal, Write
from simulation.network import READS
from simulation.tally import MANAGER

EVICTION = "eviction"


def heard(journal: Journal, client: str, request: Request) -> None:
    """A server got a request: enter it if a manager asks for a removal."""
    if client.startswith(MANAGER) and (found := removal_of(client, request)) is not None:
        journal.enter(found)


def called(journal: Journal, client: str, request: MachineRequest) -> None:
    """A manager asks the cloud to delete a VM."""
    asked = Asked(request.owner_uid, vm=request.provider_id)
    journal.enter(Write(VMS, f"{request.namespace}/{request.name}", DELETES, actor=client, asked=asked))


def carried_out(journal: Journal, where: str, client: str, request: Request, response: Response) -> None:
    """A server of a cluster has carried out a write of a manager."""
    if request.method in READS or not client.startswith(MANAGER) or response.status >= 400:
        return
    kind, key, _ = place(request.path)
    if request.method == POST and key.endswith("/") and request.body:
        key += str(orjson.loads(request.body).get("metadata", {}).get("name", ""))
    journal.enter(Write(kind, key, request.method, None, request.body, client, where=where))


def removal_of(client: str, request: Request) -> Write | None:
    """The removal of one object that a request asks for, if it does."""
    kind, key, part = place(request.path)
    evicts = request.method == POST and (kind, part) == (PODS, EVICTION)
    if not evicts and (request.method != "DELETE" or part or not key.rpartition("/")[2]):
        return None
    body = orjson.loads(request.body) if request.body else {}
    options = body.get("deleteOptions", {}) if evicts else body
    fixed = options.get("preconditions", {})
    asked = Asked(fixed.get("uid", ""), fixed.get("resourceVersion", ""), options.get("gracePeriodSeconds"))
    return Write(kind, key, EVICTS if evicts else DELETES, actor=client, asked=asked)


def place(path: str) -> tuple[str, str, str]:
    """Resource with its group, key and subresource of a path; empty where it names none."""
    _, root, *rest = path.split("/")
    group = rest[0] if root == "apis" and rest else ""
    parts = rest[2 if group else 1 :]
    namespace = ""
    if len(parts) > 2 and parts[0] == "namespaces":
        namespace, parts = parts[1], parts[2:]
    resource, name, part = (*parts, "", "", "")[:3]
    return f"{resource}.{group}" if group else resource, f"{namespace}/{name}" if namespace else name, part
