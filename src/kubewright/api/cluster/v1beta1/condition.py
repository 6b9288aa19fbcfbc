"""One thing that is so, is not so, or is not known; every kind of Cluster API has some.

Invariants.  Not ``metav1.Condition``: it has a severity, which says how bad a False is, and no generation.
             Times have whole seconds.
Source.      capi.md §2.2. The kinds of ``bootstrap.cluster.x-k8s.io`` and ``infrastructure.cluster.x-k8s.io``
             have the same conditions.
Called by    the kinds of ``v1beta1``; ``api.cluster.conditions`` computes with it.
"""

from typing import Annotated

from kubewright.api.meta import Time, Value, doc, whole_seconds


class Condition(Value, frozen=True, kw_only=True):
    """One thing that is so, is not so, or is not known."""

    type: Annotated[
        str, doc("What the condition is about, in CamelCase; Ready sums up the others.", required=True)
    ] = ""
    status: Annotated[str, doc("True, False or Unknown.", required=True)] = ""
    severity: Annotated[
        str, doc("How bad it is that the status is False: Error, Warning or Info. Empty for other statuses.")
    ] = ""
    last_transition_time: Annotated[
        Time | None,
        doc("When status, severity, reason or message last changed.", required=True),
    ] = None
    reason: Annotated[str, doc("Why the condition has this status, as one word in CamelCase.")] = ""
    message: Annotated[str, doc("Why the condition has this status, in a sentence for people.")] = ""

    def __post_init__(self) -> None:
        whole_seconds(self, "last_transition_time")
