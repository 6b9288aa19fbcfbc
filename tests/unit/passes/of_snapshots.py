"""Passes over a ControlPlaneSnapshot: what enqueues it, what is taken, written, told and deleted."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest.mock import ANY

from tests.unit.looks import planes
from tests.unit.looks.planes import There, a_cluster, a_component, a_plane, a_snapshot, key, staged

from kubewright.api.cluster.v1beta1 import CLUSTER
from kubewright.api.controlplane.names import Component
from kubewright.api.controlplane.v1alpha4 import CONTROL_PLANE_SNAPSHOT, NESTED_CONTROL_PLANE, NESTED_ETCD
from kubewright.controlplanes.hosting.hosts import Hosts
from kubewright.controlplanes.members.decide import Credentials, Endpoint
from kubewright.controlplanes.snapshots.streams import Streamed
from kubewright.controlplanes.snapshots.taking.reconciler import wire
from kubewright.testing.looks import Write
from kubewright.testing.passes import Scene, Stage, changed, gone, put

PATH = CONTROL_PLANE_SNAPSHOT.resource.path(planes.NS, "first")
FINALIZED = planes.FINALIZED
