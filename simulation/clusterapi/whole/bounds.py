"""How many workers there are: never more than a deployment and its surge, never fewer than it may lack.

Theory.      A manager may act on a number that it knew a while ago, so what counts is the largest and the
             smallest number that was wanted within ``WINDOW_SECONDS``. The stories change numbers far less
             often than that.
Source       capi.md §7.9.
Called by    ``rules``.
"""

from kubewright.api.cluster.names import DEPLOYMENT_NAME_LABEL
from kubewright.rollout.model import resolve
from simulation.clusterapi.whole import resources
from simulation.clusterapi.whole.facts import cluster_is_deleted, find, name_of, runs
from simulation.invariants import Invariant, Past
from simulation.invariants.facts import both, deleting
from simulation.journal import Object, Step

WINDOW_SECONDS = 120.0
DEFAULTS = {"maxSurge": 1, "maxUnavailable": 0}


class Bounds:
    """The rules, and the numbers that were wanted: by deployment, when, how many."""

    def __init__(self) -> None:
        self._wanted: dict[str, list[tuple[float, int]]] = {}

    @property
    def all(self) -> tuple[Invariant, ...]:
        """In the order in which they are judged."""
        return self.not_too_many_workers, self.not_too_few_workers

    def not_too_many_workers(self, step: Step, past: Past) -> str:
        """A machine is made only within the wanted number and the surge; one that is deleted still counts."""
        self._learn(step, past)
        old, new = both(step, resources.MACHINES)
        deployment = _deployment(new, past)
        if old is not None or new is None or deployment is None or past.late_creation(name_of(new)):
            return ""
        wanted = max(self._recently(deployment, past))
        most = wanted + _bound(deployment, "maxSurge", wanted)
        count = len(_members(past, deployment))
        return f"{count} machines of {name_of(deployment)}, more than {most}" if count > most else ""

    def not_too_few_workers(self, step: Step, past: Past) -> str:
        """A machine that runs is deleted only if enough others run; not so if a user or a check wants it."""
        old, new = both(step, resources.MACHINES)
        deployment = _deployment(new, past)
        if new is None or deployment is None or not deleting(new) or deleting(old) or not runs(old):
            return ""
        if name_of(new) in past.deleted_by_users or _unhealthy(new) or cluster_is_deleted(past):
            return ""
        if deleting(deployment):
            return ""
        wanted = min(self._recently(deployment, past))
        least = wanted - _bound(deployment, "maxUnavailable", wanted)
        count = sum(runs(each) and not deleting(each) for each in _members(past, deployment))
        return f"{count} machines of {name_of(deployment)} run, fewer than {least}" if count < least else ""

    def _learn(self, step: Step, past: Past) -> None:
        _, new = both(step, resources.DEPLOYMENTS)
        if new is not None:
            self._wanted.setdefault(name_of(new), []).append((past.now(), int(new["spec"]["replicas"])))

    def _recently(self, deployment: Object, past: Past) -> list[int]:
        """The numbers that were wanted within the window, and the one that was wanted when it began."""
        known, since = self._wanted[name_of(deployment)], past.now() - WINDOW_SECONDS
        earlier = [number for at, number in known if at < since]
        return [*earlier[-1:], *(number for at, number in known if at >= since)]


def _deployment(machine: Object | None, past: Past) -> Object | None:
    """The deployment of a machine, if one makes its set."""
    if machine is None:
        return None
    return find(
        past, resources.DEPLOYMENTS, str(machine["metadata"].get("labels", {}).get(DEPLOYMENT_NAME_LABEL, ""))
    )


def _members(past: Past, deployment: Object) -> list[Object]:
    """All machines of a deployment."""
    machines, name = past.journal.objects[resources.MACHINES].values(), name_of(deployment)
    return [
        each for each in machines if each["metadata"].get("labels", {}).get(DEPLOYMENT_NAME_LABEL) == name
    ]


def _bound(deployment: Object, which: str, of: int) -> int:
    """A bound of a rolling update; OnDelete makes no machine beyond the number, and deletes none."""
    strategy = deployment["spec"].get("strategy", {})
    if strategy.get("type") == "OnDelete":
        return 0
    given = strategy.get("rollingUpdate", {})
    surge, unavailable = (given.get(each, DEFAULTS[each]) for each in DEFAULTS)
    resolved = resolve(surge, of, up=True), resolve(unavailable, of, up=False)
    return resolved[which != "maxSurge"] if any(resolved) else int(which != "maxSurge")


def _unhealthy(machine: Object) -> bool:
    conditions = machine.get("status", {}).get("conditions", ())
    return any(
        each["type"] in ("HealthCheckSucceeded", "OwnerRemediated")
        for each in conditions
        if each["status"] != "True"
    )
