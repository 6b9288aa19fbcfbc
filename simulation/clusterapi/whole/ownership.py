"""Who owns what of a cluster: one controller each, owners that exist, and none missing where a machine runs.

Source       capi.md §3.3.
Called by    ``rules``.
"""

import json
from collections.abc import Iterator, Mapping

from kubewright.api.cluster.names import CLUSTER_NAME_LABEL
from kubewright.api.cluster.v1beta1 import CLUSTER
from simulation.clusterapi.whole import resources
from simulation.clusterapi.whole.facts import (
    controllers_of,
    find,
    name_of,
    owners_of,
    runs,
    uid_of,
)
from simulation.invariants import Invariant, Past
from simulation.invariants.facts import both
from simulation.journal import ApiStep, Object, Step, Written
from simulation.person import NAMESPACE_NAME

CLUSTER_KIND = CLUSTER.resource.kind
CONTROLLED: Mapping[str, str] = {
    resources.CONFIGS: "Machine",
    resources.INFRA_MACHINES: "Machine",
    resources.INFRA_CLUSTERS: CLUSTER_KIND,
    resources.SETS: "MachineDeployment",
    resources.MACHINES: "MachineSet",
}
"""By what objects of a kind are controlled, if anything controls them."""
OWNED_BY_CLUSTER = (
    resources.DEPLOYMENTS,
    resources.CHECKS,
    resources.CONFIG_TEMPLATES,
    resources.INFRA_TEMPLATES,
)
"""What the Cluster owns and does not control."""
SECRETS = f"/api/v1/namespaces/{NAMESPACE_NAME}/secrets"


class Ownership:
    """The rules, and what they remember."""

    def __init__(self) -> None:
        self._controllers: dict[str, str] = {}
        self._known: set[tuple[str, str, str]] = set()
        self._made: set[str] = set()
        """Keys of Secrets that managers have made."""

    @property
    def all(self) -> tuple[Invariant, ...]:
        """In the order in which they are judged."""
        return self.an_object_has_one_controller, self.an_owner_is_real, self.what_runs_is_owned

    def an_object_has_one_controller(self, step: Step, past: Past) -> str:
        """It gets its controller once, of the right kind, and keeps it, unless a user has it left behind."""
        if not isinstance(step, ApiStep) or step.resource not in CONTROLLED or step.new is None:
            return ""
        found = controllers_of(step.new)
        if len(found) > 1:
            return f"{step.resource} {step.key} has {len(found)} controllers"
        uid, known = uid_of(step.new), "".join(str(each["uid"]) for each in found)
        if found and found[0]["kind"] != CONTROLLED[step.resource]:
            return f"{step.resource} {step.key} is controlled by a {found[0]['kind']}"
        if not known and self._controllers.get(uid) in past.deleted_by_users:
            del self._controllers[uid]
        before = self._controllers.setdefault(uid, known) or known
        self._controllers[uid] = known or before
        return f"{step.resource} {step.key} has lost or changed its controller" if before != known else ""

    def an_owner_is_real(self, step: Step, _past: Past) -> str:
        """Each new owner is, or was, an object of this name and uid: else the garbage collector deletes."""
        if not isinstance(step, ApiStep) or step.new is None:
            return ""
        kind = str(step.new.get("kind", ""))
        self._known.add((kind, name_of(step.new), uid_of(step.new)))
        known = {each[0] for each in self._known}
        before = owners_of(step.old) if step.old is not None else []
        for each in owners_of(step.new):
            named = (str(each["kind"]), str(each["name"]), str(each["uid"]))
            if each not in before and named[0] in known and named not in self._known:
                return f"{step.resource} {step.key} is owned by {named[0]} {named[1]} of an unknown uid"
        return ""

    def what_runs_is_owned(self, step: Step, past: Past) -> str:
        """When a machine is Running, all that it needs has the owners that it should have."""
        if isinstance(step, Written) and step.method == "POST" and step.path == SECRETS:
            self._made.add(f"{NAMESPACE_NAME}/{json.loads(step.body)['metadata']['name']}")
        old, new = both(step, resources.MACHINES)
        if new is None or runs(old) or not runs(new):
            return ""
        made = past.journal.objects[resources.SECRETS].items()
        lonely = [name for name, found in made if name in self._made and not owners_of(found)]
        wrong = [f"Secret {name} has no owner" for name in lonely]
        wrong += [*_wrong_around(new, past), *_wrong_with(new, past)]
        return f"{name_of(new)} runs, but {', '.join(wrong)}" if wrong else ""


def _wrong_with(machine: Object, past: Past) -> Iterator[str]:
    """What is wrong with the machine and its own objects."""
    spec, name = machine["spec"], name_of(machine)
    infra = find(past, resources.INFRA_MACHINES, str(spec["infrastructureRef"]["name"]))
    yield from _not_controlled(infra, machine, f"KubewrightMachine of {name}")
    if "configRef" in spec["bootstrap"]:
        config = find(past, resources.CONFIGS, str(spec["bootstrap"]["configRef"]["name"]))
        yield from _not_controlled(config, machine, f"KubeadmConfig of {name}")
        data = find(past, resources.SECRETS, str(spec["bootstrap"]["dataSecretName"]))
        if config is not None:
            yield from _not_controlled(data, config, f"data Secret of {name}")
    if not controllers_of(machine) and not _is_owned(machine, past):
        yield "it has no owner"
    if CLUSTER_NAME_LABEL not in machine["metadata"].get("labels", {}):
        yield "it has no label of its cluster"


def _wrong_around(machine: Object, past: Past) -> Iterator[str]:
    """What is wrong with the objects that all machines of the cluster share."""
    cluster = find(past, resources.CLUSTERS, str(machine["spec"]["clusterName"]))
    if cluster is not None:
        infra = find(past, resources.INFRA_CLUSTERS, str(cluster["spec"]["infrastructureRef"]["name"]))
        yield from _not_controlled(infra, cluster, "KubewrightCluster")
    if controllers_of(machine):
        for resource in OWNED_BY_CLUSTER:
            for name, found in past.journal.objects[resource].items():
                if not _is_owned(found, past):
                    yield f"{resource} {name} is not the cluster's"


def _not_controlled(found: Object | None, by: Object, what: str) -> Iterator[str]:
    if found is None or [str(each["uid"]) for each in controllers_of(found)] != [uid_of(by)]:
        yield f"the {what} is {'gone' if found is None else 'not controlled by it'}"


def _is_owned(found: Object, past: Past) -> bool:
    """Whether the Cluster is an owner that does not control."""
    uids = {uid_of(each) for each in past.journal.objects[resources.CLUSTERS].values()}
    return any(
        each["kind"] == CLUSTER_KIND and each["uid"] in uids and not each.get("controller")
        for each in owners_of(found)
    )
