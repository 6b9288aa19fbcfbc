"""A hollow kubelet on every simulated VM: what makes nodes join, live and fall silent.

Theory.      Ten thousand kubelets in one process: no task each, but one agenda of VM ids and a few
             workers. A visit reads the VM (``cloud``), its Node (an informer shared with the
             controllers) and the kubelet's small memory, decides (``guests``), acts once, and says
             when to come back. Pods have an agenda of their own, so that neither waits for the
             other. A VM without power is not visited at all, hence silent.
Invariants.  At most one request per VM is in flight; a deletion in the cloud waits for it
             (``quiet``), so no Node appears after its VM is gone. Failures back off per VM, at most
             half a minute. Nodes and conditions that are not ours are never written.
Called by    ``driver.run``, beside the controllers.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import structlog

from kubewright.api.core import LEASE, NODE, POD, Node, Pod
from kubewright.base.errors import KubewrightError
from kubewright.kube.changes import Change
from kubewright.kube.informers import Informers
from kubewright.providers.sim import guests, pods, registration
from kubewright.providers.sim.agenda import Agenda
from kubewright.providers.sim.cloud import Cloud
from kubewright.providers.sim.guests import Act, Guest, Situation, View
from kubewright.providers.sim.settings import KubeletSettings
from kubewright.providers.sim.vm import Vm, outlook
from kubewright.wire.errors import AlreadyExists, ApiError, NotFound
from kubewright.wire.gvk import Key
from kubewright.wire.http import STRATEGIC_PATCH

log = structlog.get_logger(__name__)
K = TypeVar("K", str, Key)
LONGEST_PAUSE = 30.0
"""Seconds between attempts of a kubelet that keeps failing."""
SYNC_SECONDS = 60.0
BY_NODE = "kubelet.node"
"""Our index of pods by the node they are bound to."""


class Kubelets:
    """All kubelets of one cloud, in one cluster."""

    def __init__(self, cloud: Cloud, informers: Informers, settings: KubeletSettings) -> None:
        self._cloud = cloud
        self._clock = cloud.clock
        self._settings = settings
        self._client = informers.client
        self._informers = informers
        self._nodes = informers.get(NODE)
        self._pods = informers.get(POD)
        self._guests: dict[str, Guest] = {}
        self._by_node: dict[str, str] = {}
        self._visits: Agenda[str] = Agenda(self._clock)
        self._pod_visits: Agenda[Key] = Agenda(self._clock)
