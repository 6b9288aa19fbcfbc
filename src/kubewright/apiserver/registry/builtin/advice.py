"""What a person should hear about a built-in object that is accepted all the same: Warning headers.

Theory.      The server stores workloads for the clients that read them (a drain asks who owns a Pod, budgets
             ask how many there should be), but no controller here makes Pods of them. A person who
             applies one must not wait for Pods that never come.
Called by    ``builtin.served``, as a hook of the kind.
"""

from collections.abc import Callable

from kubewright.apiserver.registry import custom
from kubewright.apiserver.registry.kind import Object

Advice = Callable[[Object, Object | None], list[str]]

NOT_RUN = {
    "apps.v1.DaemonSet": "DaemonSets",
    "apps.v1.StatefulSet": "StatefulSets",
    "batch.v1.CronJob": "CronJobs",
    "batch.v1.Job": "Jobs",
}
"""The kinds that a kube-controller-manager would act on and nothing here does, as a sentence names them."""


def of(definition: str) -> Advice:
    """The hook of a kind."""
    if definition == "apiextensions.v1.CustomResourceDefinition":
        return custom.warnings
    if definition in NOT_RUN:
        return _not_run(NOT_RUN[definition])
    return lambda _new, _old: []


def _not_run(kinds: str) -> Advice:
    """Said when the object is made and when its spec changes: labels and status expect no Pods."""
    said = f"this server stores {kinds} but runs no controller for them: no Pods will come of this one"

    def advice(new: Object, old: Object | None) -> list[str]:
        return [] if old is not None and old.get("spec") == new.get("spec") else [said]

    return advice
