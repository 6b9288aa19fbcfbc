"""Decide what a rollout command writes, and what it says. Pure.

Theory.      A command changes the deployment, and its controller does the rest: Kubewright's, Cluster API's
             or Gardener's. How far a rollout is follows from the deployment's status, which counts only once
             its ``observedGeneration`` is that of the present spec.
Invariants.  A change is a merge patch of what was read, and has only the fields that the command is about. If
             the deployment is already as the command wants it, nothing is written, and the command says so.
Source       DEP-10, DEP-11, DEP-13.
Called by    ``command``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from kubewright.api.diff import merge_patch
from kubewright.api.machine.names import CLASS_APPLIED
from kubewright.base.clock import rfc3339
from kubewright.base.errors import InvalidInput
from kubewright.cli.counts import in_excess, part
from kubewright.cli.rollout.apis import Api, JsonObject

RESTARTED_ANNOTATION = "kubewright.dev/restarted-at"
"""In a template of machines: a new value is another template, so that the machines are replaced."""

DEADLINE_EXCEEDED = "ProgressDeadlineExceeded"


@dataclass(frozen=True, slots=True)
class Change:
    """``patch``: of the deployment, empty for none; ``said``: what the command prints after its name."""

    patch: Mapping[str, Any]
    said: str


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a rollout is. ``failed``: it made no progress within ``progressDeadlineSeconds``."""

    said: str
    done: bool = False
    failed: bool = False


@dataclass(frozen=True, slots=True)
class Revision:
    """A template that the deployment has or had, by the set that stands for it."""

    number: int
    set: JsonObject
    machines: int
    current: bool


def pause(deployment: JsonObject, *, paused: bool) -> Change:
    """Stop the rollout, or let it go on."""
    word, spec = "paused" if paused else "resumed", deployment.get("spec", {})
    if bool(spec.get("paused")) is paused:
        return Change({}, f"was {word} already")
    return Change({"spec": {"paused": True if paused else None}}, word)


def restart(api: Api, deployment: JsonObject, now: datetime) -> Change:
    """Replace all machines by new ones of the same template.

    Raises:
        InvalidInput: the deployment is paused, so that nothing would follow.
    """
    _refuse_paused(deployment, "restarted")
    if api.restarts_at:
        return Change({"spec": {"rolloutAfter": rfc3339(now)}}, "restarted")
    annotations = {RESTARTED_ANNOTATION: rfc3339(now)}
    return Change({"spec": {"template": {"metadata": {"annotations": annotations}}}}, "restarted")


def undo(api: Api, deployment: JsonObject, sets: Sequence[JsonObject], wanted: int) -> Change:
    """Go back to an earlier template: of revision ``wanted``, or 0 for the one before the present.

    Raises:
        InvalidInput: the deployment is paused, or has no such revision.
    """
    _refuse_paused(deployment, "undone")
    target = _target(history(api, deployment, sets), wanted)
    before = deployment["spec"]["template"]
    after = _without_hash(target.set["spec"]["template"], api.template_hash)
    patch = merge_patch(before, after)
    if target.current or not patch:
        return Change({}, f"has the template of revision {target.number} already")
    back = {"rollbackTo": {"revision": target.number}} if api.rolls_back else {"template": patch}
    return Change({"spec": back}, f"rolled back to revision {target.number}")


def history(api: Api, deployment: JsonObject, sets: Sequence[JsonObject]) -> list[Revision]:
    """The revisions of a deployment, oldest first: those of its own sets that have a number."""
    uid = deployment["metadata"].get("uid")
    found: list[Revision] = []
    own = [each for each in sets if _controller(each) == uid]
    newest = max((_number(api, each) for each in own), default=0)
    for each in own:
        if number := _number(api, each):
            machines = each.get("status", {}).get("replicas", 0)
            found.append(Revision(number, each, machines, number == newest))
    return sorted(found, key=lambda revision: revision.number)


def progress(deployment: JsonObject) -> Progress:
    """How far the rollout is, by the deployment's own status."""
    meta, spec, status = (deployment.get(part, {}) for part in ("metadata", "spec", "status"))
    if status.get("observedGeneration", 0) < meta.get("generation", 0):
        return Progress("its controller has not seen the last change yet")
    wanted = _wanted(deployment)
    counts = ("updatedReplicas", "replicas", "availableReplicas")
    updated, existing, available = (status.get(name, 0) for name in counts)
    for each in status.get("conditions", ()):
        if each.get("type") == "Progressing" and each.get("reason") == DEADLINE_EXCEEDED:
            return Progress(each.get("message") or "it has made no progress for too long", failed=True)
    held = "; it is paused" if spec.get("paused") else ""
    if updated < wanted:
        return Progress(f"{updated} of {wanted} machines have the new template{held}")
    if existing > updated:
        return Progress(f"old machines that are still there: {existing - updated}{held}")
    if available < updated:
        return Progress(f"{available} of {updated} machines are available{held}")
    return Progress(f"rolled out: {_machines(updated)}", done=True)


def table(revisions: Sequence[Revision]) -> list[str]:
    """The revisions as lines with columns."""
    rows = [("REVISION", "MACHINE SET", "CREATED", "MACHINES", "")]
    for each in revisions:
        meta = each.set["metadata"]
        now = "current" if each.current else ""
        rows.append(
            (str(each.number), meta["name"], meta.get("creationTimestamp", ""), str(each.machines), now)
        )
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    cells = ([cell.ljust(width) for cell, width in zip(row, widths, strict=True)] for row in rows)
    return ["   ".join(row).rstrip() for row in cells]


def template_of(api: Api, revisions: Sequence[Revision], number: int) -> JsonObject:
    """The template of one revision, as a deployment would have it.

    Raises:
        InvalidInput: there is no such revision.
    """
    return _without_hash(_target(revisions, number).set["spec"]["template"], api.template_hash)


def _target(revisions: Sequence[Revision], wanted: int) -> Revision:
    if not wanted:
        if len(revisions) > 1:
            return revisions[-2]
        raise InvalidInput("it has no earlier revision")
    found = next((each for each in revisions if each.number == wanted), None)
    if found is None:
        known = ", ".join(str(each.number) for each in revisions) or "none"
        raise InvalidInput(f"it has no revision {wanted}; there are: {known}")
    return found


def _refuse_paused(deployment: JsonObject, word: str) -> None:
    if deployment.get("spec", {}).get("paused"):
        raise InvalidInput(f"it is paused, and cannot be {word}; resume it first")


def _controller(each: JsonObject) -> Any:
    owners = each["metadata"].get("ownerReferences", ())
    return next((owner.get("uid") for owner in owners if owner.get("controller")), None)


def _number(api: Api, each: JsonObject) -> int:
    text = each["metadata"].get("annotations", {}).get(api.revision, "")
    return int(text) if text.isascii() and text.isdigit() else 0


def _without_hash(template: JsonObject, label: str) -> JsonObject:
    meta = dict(template.get("metadata", {}))
    labels = {key: text for key, text in meta.get("labels", {}).items() if key != label}
    return {**template, "metadata": {**meta, "labels": labels}}


def class_name(deployment: JsonObject) -> str:
    """The class of the machines that a deployment makes now."""
    reference: JsonObject = deployment["spec"].get("template", {}).get("spec", {}).get("class", {})
    return str(reference.get("name", ""))


def would_roll(deployment: JsonObject, name: str, machine_class: JsonObject) -> list[str]:
    """A line for what a class says of its machines that they do not have, as its condition has it, and how
    many would be replaced to get it."""
    conditions = machine_class.get("status", {}).get("conditions", ())
    told: JsonObject = next((each for each in conditions if each.get("type") == CLASS_APPLIED), {})
    if told.get("status") != "False":
        return []
    count = _machines(_wanted(deployment))
    return [f"class {name}: {told.get('message', '')}. A class of another name would roll {count}"]


def _wanted(deployment: JsonObject) -> int:
    """How many machines it is to have, those that are kept free included."""
    return int(part(deployment, "spec").get("replicas", 1)) + in_excess(deployment)


def _machines(count: int) -> str:
    return f"{count} machine" if count == 1 else f"{count} machines"
