"""The numbers about machines, sets and deployments: MCM's names and labels, and what they say of an object."""

from typing import Any

import msgspec
import pytest

from kubewright.kube.header import Header
from kubewright.machines.metrics import families
from kubewright.wire.gvk import Key

FAMILIES = {each.name: each for each in families()}

OBJECT = ("name", "namespace")
OF_CLASS = ("spec_machine_class_api_group", "spec_machine_class_kind", "spec_machine_class_name")
OF_FAILED = (
    "failed_machine_name",
    "failed_machine_provider_id",
    "failed_machine_owner_ref",
    "failed_machine_last_operation_state",
    "failed_machine_last_operation_machine_operation_type",
)
SET, DEPLOYMENT = "mcm_machine_set", "mcm_machine_deployment"
LABELS = {
    "mcm_machine_items_total": (),
    "mcm_machine_current_status_phase": OBJECT,
    "mcm_machine_info": (
        *OBJECT,
        "createdAt",
        "spec_provider_id",
        "spec_class_api_group",
        "spec_class_kind",
        "spec_class_name",
        "node_name",
    ),
    "mcm_machine_status_condition": (*OBJECT, "condition"),
    f"{SET}_items_total": (),
    f"{SET}_info": (*OBJECT, "createdAt", *OF_CLASS),
    f"{SET}_status_condition": (*OBJECT, "condition"),
    f"{SET}_failed_machines": (*OBJECT, *OF_FAILED),
    f"{DEPLOYMENT}_items_total": (),
    f"{DEPLOYMENT}_info": (*OBJECT, "createdAt", *OF_CLASS, "spec_strategy_type"),
    f"{DEPLOYMENT}_status_condition": (*OBJECT, "condition"),
    f"{DEPLOYMENT}_failed_machines": (*OBJECT, *OF_FAILED),
    **{
        f"{SET}_{name}": OBJECT
        for name in (
            "info_spec_replicas", "info_spec_min_ready_seconds", "status_available_replicas",
            "status_fully_labelled_replicas", "status_ready_replicas", "status_replicas",
        )
    },
    **{
        f"{DEPLOYMENT}_info_spec_{name}": OBJECT
        for name in (
            "paused", "replicas", "min_ready_seconds", "rolling_update_max_surge",
            "rolling_update_max_unavailable", "revision_history_limit", "progress_deadline_seconds",
            "rollback_to_revision",
        )
    },
    **{
        f"{DEPLOYMENT}_status_{name}": OBJECT
        for name in (
            "available_replicas", "unavailable_replicas", "ready_replicas", "updated_replicas", "replicas",
            "collision_count",
        )
    },
}  # fmt: skip
"""MCM's families about objects (INS-05), with their labels."""

MADE = "1970-01-02T00:00:00Z"
CLASS = {"apiGroup": "", "kind": "MachineClass", "name": "small"}


def header(name: str, spec: dict[str, Any], status: dict[str, Any], **meta: Any) -> Header:
    metadata = {"name": name, "creationTimestamp": MADE, **meta}
    data = msgspec.json.encode({"metadata": metadata, "spec": spec, "status": status})
    return Header(Key("ns", name), name, 1, 1, "", deleting=False, data=data)


def machine(phase: str, conditions: dict[str, str] | None = None) -> Header:
    status = {
        "currentStatus": {"phase": phase},
        "conditions": [{"type": kind, "status": value} for kind, value in (conditions or {}).items()],
    }
    spec = {"class": CLASS, "providerID": "sim:///1"}
    return header("m", spec, status, labels={"node": "n"})


FAILED_MACHINE = {
    "name": "m",
    "providerID": "sim:///1",
    "ownerRef": "s",
    "lastOperation": {"state": "Failed", "type": "Create"},
}
MACHINE_SET = header(
    "s",
    {"replicas": 3, "minReadySeconds": 7, "template": {"spec": {"class": CLASS}}},
    {"replicas": 4, "fullyLabeledReplicas": 3, "readyReplicas": 2, "availableReplicas": 1,
     "machineSetCondition": [{"type": "Frozen", "status": "True"}], "failedMachines": [FAILED_MACHINE]},
)  # fmt: skip
MACHINE_DEPLOYMENT = header(
    "d",
    {"replicas": 10, "minReadySeconds": 7, "paused": True, "template": {"spec": {"class": CLASS}},
     "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": 1}},
     "revisionHistoryLimit": 2, "progressDeadlineSeconds": 600, "rollbackTo": {"revision": 4}},
    {"replicas": 5, "readyReplicas": 4, "availableReplicas": 3, "updatedReplicas": 2, "unavailableReplicas": 7,
     "collisionCount": 1, "conditions": [{"type": "Available", "status": "False"}, {"type": "X", "status": "?"}],
     "failedMachines": [FAILED_MACHINE]},
)  # fmt: skip
BARE = header("d", {"strategy": {"rollingUpdate": {"maxSurge": "many"}}}, {"conditions": None})
ODD = Header(Key("ns", "odd"), "odd", 1, 1, "", deleting=False, data=b'{"spec":{"replicas":"many"}}')
IN_SET, IN_DEPLOYMENT = ("s", "ns"), ("d", "ns")
OF_M = ("m", "sim:///1", "s", "Failed", "Create")

ROWS: list[tuple[str, str, list[Header], dict[tuple[str, ...], float]]] = [
    ("machines are counted", "mcm_machine_items_total", [machine(""), machine("")], {(): 2}),
    ("what a machine is", "mcm_machine_info", [machine("")],
     {("m", "ns", "86400", "sim:///1", "", "MachineClass", "small", "n"): 1}),
    ("True is 1, False 0, Unknown 2", "mcm_machine_status_condition",
     [machine("", {"Ready": "True", "Hot": "False", "Lost": "Unknown"})],
     {("m", "ns", "Ready"): 1, ("m", "ns", "Hot"): 0, ("m", "ns", "Lost"): 2}),
    ("what a set is", f"{SET}_info", [MACHINE_SET], {(*IN_SET, "86400", "", "MachineClass", "small"): 1}),
    ("its replicas are not its ready replicas", f"{SET}_status_replicas", [MACHINE_SET], {IN_SET: 4}),
    ("its ready replicas", f"{SET}_status_ready_replicas", [MACHINE_SET], {IN_SET: 2}),
    ("its available replicas", f"{SET}_status_available_replicas", [MACHINE_SET], {IN_SET: 1}),
    ("those with all labels", f"{SET}_status_fully_labelled_replicas", [MACHINE_SET], {IN_SET: 3}),
    ("those that are wanted", f"{SET}_info_spec_replicas", [MACHINE_SET, ODD], {IN_SET: 3}),
    ("how long they must be ready", f"{SET}_info_spec_min_ready_seconds", [MACHINE_SET], {IN_SET: 7}),
    ("a set's conditions", f"{SET}_status_condition", [MACHINE_SET], {(*IN_SET, "Frozen"): 1}),
    ("a set's failed machines", f"{SET}_failed_machines", [MACHINE_SET], {(*IN_SET, *OF_M): 1}),
    ("sets are counted", f"{SET}_items_total", [MACHINE_SET], {(): 1}),
    ("deployments are counted, the odd one too", f"{DEPLOYMENT}_items_total", [MACHINE_DEPLOYMENT, ODD], {(): 2}),
    ("what a deployment is", f"{DEPLOYMENT}_info", [MACHINE_DEPLOYMENT],
     {(*IN_DEPLOYMENT, "86400", "", "MachineClass", "small", "RollingUpdate"): 1}),
    ("a condition with another status has no row", f"{DEPLOYMENT}_status_condition", [MACHINE_DEPLOYMENT],
     {(*IN_DEPLOYMENT, "Available"): 0}),
    ("a deployment's failed machines", f"{DEPLOYMENT}_failed_machines", [MACHINE_DEPLOYMENT],
     {(*IN_DEPLOYMENT, *OF_M): 1}),
    *[(f"a deployment's {name}", f"{DEPLOYMENT}_{name}", [MACHINE_DEPLOYMENT], {IN_DEPLOYMENT: value})
      for name, value in (
          ("info_spec_paused", 1), ("info_spec_replicas", 10), ("info_spec_min_ready_seconds", 7),
          ("info_spec_rolling_update_max_surge", 3), ("info_spec_rolling_update_max_unavailable", 1),
          ("info_spec_revision_history_limit", 2), ("info_spec_progress_deadline_seconds", 600),
          ("info_spec_rollback_to_revision", 4), ("status_available_replicas", 3),
          ("status_unavailable_replicas", 7), ("status_ready_replicas", 4), ("status_updated_replicas", 2),
          ("status_replicas", 5), ("status_collision_count", 1),
      )],
    *[(f"a bare deployment has no {name}", f"{DEPLOYMENT}_{name}", [BARE], {})
      for name in ("info_spec_rolling_update_max_surge", "info_spec_revision_history_limit",
                   "info_spec_rollback_to_revision", "status_collision_count", "status_condition")],
]  # fmt: skip


@pytest.mark.parametrize(
    ("family", "headers", "rows"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS]
)
def test_a_family_shows(family: str, headers: list[Header], rows: dict[tuple[str, ...], float]) -> None:
    assert dict(FAMILIES[family].rows(headers)) == rows


@pytest.mark.parametrize(
    ("phase", "number"),
    [("Terminating", -4), ("Failed", -3), ("CrashLoopBackOff", -2), ("Unknown", -1), ("Pending", 0),
     ("Running", 1), ("Available", 0), ("InPlaceUpdating", 0), ("", 0)],
)  # fmt: skip
def test_each_phase_has_its_number(phase: str, number: int) -> None:
    rows = dict(FAMILIES["mcm_machine_current_status_phase"].rows([machine(phase)]))
    assert rows == {("m", "ns"): number}


def test_names_and_labels_are_those_of_mcm() -> None:
    assert {name: family.labels for name, family in FAMILIES.items()} == LABELS


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
def test_a_row_has_a_value_for_each_label(family: Any) -> None:
    headers = [machine("Running", {"Ready": "True"})] if family.kind.resource.kind == "Machine" else [
        MACHINE_SET if family.name.startswith(SET) else MACHINE_DEPLOYMENT
    ]  # fmt: skip
    rows = list(family.rows(headers))
    assert rows
    assert {len(labels) for labels, _ in rows} == {len(family.labels)}
