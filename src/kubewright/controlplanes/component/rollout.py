"""Which instance of a component is replaced next. Pure.

Theory.      An instance that runs with something else than what was applied is replaced by one that does. One
             that is not ready serves no one and goes first: it may be what a repair is for, such as one with
             a certificate that has expired. Of those that are ready one goes at a time, and only while all
             others are ready, the highest ordinal first, as a StatefulSet does it.
Invariants.  At most one instance is missing because of a rollout. Of three members or more, those that are
             ready never become fewer than a majority by it.
Source       nested.md D6 (rolling change), A9.
Called by    ``decide``, for all components and all hosts; ``status`` and ``obstacles`` count by it.
"""

from kubewright.controlplanes.hosting.contract import Instance, Running, Workload


def current(workload: Workload | None, running: Running) -> list[Instance]:
    """The instances that run with what should run; none while that is not known."""
    if workload is None:
        return []
    return [each for each in running.instances if each.fingerprint == workload.fingerprint]


def outdated(workload: Workload, running: Running) -> list[Instance]:
    """The instances that run with something else than what should run, in their order."""
    return [each for each in running.instances if each.fingerprint != workload.fingerprint]


def next_instance(workload: Workload, running: Running) -> int | None:
    """The ordinal of the instance to replace now; None: none, or not yet.

    An instance beyond the number that should run is ended by its host, and never replaced.
    """
    instances = [each for each in running.instances if each.ordinal < workload.replicas]
    if any(each.ending for each in running.instances):
        return None
    old = [each for each in outdated(workload, running) if each.ordinal < workload.replicas]
    # It goes even while others are not ready: members of an etcd may wait for this one to have a majority.
    if broken := [each.ordinal for each in old if not each.ready]:
        return max(broken)
    if len(instances) < workload.replicas or not all(each.ready for each in instances):
        return None
    return max((each.ordinal for each in old), default=None)
