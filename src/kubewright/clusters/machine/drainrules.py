"""What the MachineDrainRules of a namespace say about the pods of one machine's Node. Pure.

Theory.      A rule selects machines, by their labels and their Cluster's, and pods, by their labels and their
             Namespace's. Of several rules for one pod the first by name counts; without one a pod is evicted,
             in order 0. What is waited for has the order 0, too.
Invariants.  A rule whose selectors cannot be read stops the drain: a pod that it protects must not be evicted
             because of a typing error. A Namespace that is not known has no labels.
Source       capi.md §5.7 (HEAD), §14-W2; the kind's own documentation in v1.10.
Called by    ``look``, which lists the rules; ``deletion``, whose policy asks for each pod.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from msgspec import to_builtins

from kubewright.api.cluster.v1beta1 import DRAIN, Cluster, Machine, MachineDrainRule
from kubewright.api.core import Pod
from kubewright.api.meta import LabelSelector
from kubewright.base.errors import KubewrightError
from kubewright.wire import selectors
from kubewright.wire.errors import BadRequest

Labels = Mapping[str, str]
Selects = Callable[[Labels, Labels], bool]
"""Whether two sets of labels are selected: a machine's and its Cluster's, a pod's and its Namespace's."""


class UnreadableRule(KubewrightError):
    """The message names the rule, and what is wrong with it."""


@dataclass(frozen=True, slots=True)
class Rule:
    """What one rule says: its behavior, the order, and for which pods.

    ``by_namespace``: it asks for the labels of Namespaces.
    """

    behavior: str
    order: int
    selects: Selects
    by_namespace: bool


@dataclass(frozen=True, slots=True)
class DrainRules:
    """The rules for one machine, in their order. ``namespaces``: labels by the name of a Namespace."""

    rules: tuple[Rule, ...] = ()
    namespaces: Mapping[str, Labels] = field(default_factory=dict)

    @property
    def by_namespace(self) -> bool:
        """Whether the labels of Namespaces must be known."""
        return any(each.by_namespace for each in self.rules)

    def behavior_of(self, pod: Pod) -> tuple[str, int]:
        """What is done with a pod, and in which order."""
        outer = self.namespaces.get(pod.namespace, {})
        for each in self.rules:
            if each.selects(pod.metadata.labels, outer):
                return each.behavior, each.order
        return DRAIN, 0


NO_RULES = DrainRules()


def rules_for(machine: Machine, cluster: Cluster | None, found: Iterable[MachineDrainRule]) -> DrainRules:
    """The rules of the machine's namespace that are for it.

    Raises:
        UnreadableRule: a selector of a rule, whether it is for this machine or not, cannot be read.
    """
    labels = cluster.metadata.labels if cluster is not None else {}
    rules: list[Rule] = []
    for each in sorted(found, key=lambda rule: rule.name):
        try:
            machines = [_both(it.selector, it.cluster_selector) for it in each.spec.machines]
            pods = [_both(it.selector, it.namespace_selector) for it in each.spec.pods]
        except BadRequest as error:
            raise UnreadableRule(f"MachineDrainRule {each.name} cannot be read: {error}") from None
        if _any(machines)(machine.metadata.labels, labels):
            drain, namespaced = each.spec.drain, any(it.namespace_selector for it in each.spec.pods)
            order = (drain.order or 0) if drain.behavior == DRAIN else 0
            rules.append(Rule(drain.behavior, order, _any(pods), namespaced))
    return DrainRules(tuple(rules))


def _any(selects: list[Selects]) -> Selects:
    """By one of them; by none at all, everything."""
    return lambda labels, outer: not selects or any(each(labels, outer) for each in selects)


def _both(own: LabelSelector | None, outer_selector: LabelSelector | None) -> Selects:
    mine, theirs = _read(own), _read(outer_selector)
    return lambda labels, outer: mine.matches(labels) and theirs.matches(outer)


def _read(selector: LabelSelector | None) -> selectors.Selector:
    plain: Mapping[str, Any] = to_builtins(selector) if selector is not None else {}
    return selectors.from_object(plain)
