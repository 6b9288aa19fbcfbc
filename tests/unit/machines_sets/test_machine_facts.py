"""What sets and deployments know of one machine (SET-02, SET-07, DEP-05): whole values are compared."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec import structs

from kubewright.api.machine import names
from kubewright.api.machine.names import Phase
from kubewright.api.machine.v1alpha1 import (
    MACHINE,
    ClassSpec,
    CurrentStatus,
    LastOperation,
    Machine,
    MachineSpec,
    MachineStatus,
    MachineSummary,
)
from kubewright.api.meta import ObjectMeta, OwnerReference
from kubewright.kube import header as headers
from kubewright.machines.machineset.member import MachineMember, digest, member_of, read
from kubewright.replicas.objects import letters
from kubewright.wire.gvk import Key

T0 = datetime(2030, 1, 1, tzinfo=UTC)
NOW = T0.timestamp()
SPEC = MachineSpec(machine_class=ClassSpec(kind="MachineClass", name="small"), provider_id="sim:///1")
SET = OwnerReference(kind="MachineSet", name="ms", uid="ms-uid", controller=True)
OTHER = OwnerReference(kind="Other", name="other", uid="other-uid")
NAME = f"ms-{letters('ms-uid', 5)}"
BROKEN = LastOperation(state="Failed", description="why")


def machine(
    phase: str = "", notes: dict[str, str] | None = None, *, spec: MachineSpec = SPEC, **more: Any
) -> Machine:
    """A machine of the set ``ms``, made at ``T0``, in its phase for nine seconds by then."""
    operation, expiry = more.pop("operation", LastOperation()), more.pop("expiry", None)
    current = CurrentStatus(
        phase=phase, last_update_time=T0 - timedelta(seconds=9), preserve_expiry_time=expiry
    )
    meta = {
        "name": NAME,
        "namespace": "ns",
        "uid": "u",
        "resource_version": "7",
        "labels": {"app": "a"},
        "annotations": notes or {},
        "owner_references": (OTHER, SET),
        "creation_timestamp": T0,
        **more,
    }
    return Machine(
        metadata=ObjectMeta(**meta),
        spec=spec,
        status=MachineStatus(last_operation=operation, current_status=current),
    )


PLAIN = MachineMember(
    Key("ns", NAME),
    "u",
    "ms-uid",
    {"app": "a"},
    deleting=False,
    created=NOW,
    propagated_digest=digest(SPEC, own_timeout=False),
)
PRESERVE, LAST_PRESERVE = names.PRESERVE_ANNOTATION, names.LAST_APPLIED_PRESERVE_ANNOTATION
TIMEOUT = names.EFFECTIVE_CREATION_TIMEOUT_ANNOTATION
SUMMARY = MachineSummary(name=NAME, provider_id="sim:///1", last_operation=BROKEN, owner_ref="ms")
SLOW = structs.replace(SPEC, creation_timeout="90m")


@pytest.mark.parametrize(
    ("of", "facts"),
    [
        pytest.param(machine(), PLAIN, id="one that has just been made"),
        pytest.param(machine(owner_references=(OTHER,)), replace(PLAIN, owner_uid=""), id="one without a controller"),
        pytest.param(machine(creation_timestamp=None), replace(PLAIN, created=0.0), id="one without a date"),
        pytest.param(machine(deletion_timestamp=T0), replace(PLAIN, deleting=True), id="one that is being deleted"),
        pytest.param(machine("Odd"), PLAIN, id="an unknown phase is none"),
        pytest.param(machine("Running"), replace(PLAIN, phase=Phase.RUNNING, ready_since=NOW - 9), id="one that runs"),
        pytest.param(machine("Failed"), replace(PLAIN, phase=Phase.FAILED, failed_at=NOW - 9), id="since when it is Failed"),
        pytest.param(machine("Failed", expiry=T0), replace(PLAIN, phase=Phase.FAILED, failed_at=NOW - 9, preserved_until=NOW),
                     id="until when it is preserved"),
        pytest.param(machine(notes={names.PRIORITY_ANNOTATION: "1"}), replace(PLAIN, priority=1), id="its priority"),
        pytest.param(machine(notes={names.MARKED_FOR_DELETION_TIME_ANNOTATION: "2030-01-01T00:00:00Z"}),
                     replace(PLAIN, marked_at=NOW), id="when the autoscaler chose it"),
        pytest.param(machine(notes={names.NUMBER_ANNOTATION: "5"}), replace(PLAIN, number=5), id="its number"),
        pytest.param(machine(notes={names.NUMBER_ANNOTATION: "5"}, owner_references=()),
                     replace(PLAIN, owner_uid=""), id="a number counts in its set only"),
        pytest.param(machine(notes={PRESERVE: "now"}), replace(PLAIN, preserving=True, preserve_annotated=True),
                     id="a user asks to preserve it"),
        pytest.param(machine(notes={PRESERVE: "auto-preserved"}),
                     replace(PLAIN, preserving=True, preserve_annotated=True, auto_preserved=True), id="its set does"),
        pytest.param(machine(notes={PRESERVE: "false"}), replace(PLAIN, preserve_annotated=True),
                     id="a user asks not to preserve it"),
        pytest.param(machine(notes={LAST_PRESERVE: "now"}), replace(PLAIN, preserve_annotated=True),
                     id="its node asked for it once"),
        pytest.param(machine(spec=SLOW), replace(PLAIN, propagated_digest=digest(SLOW, own_timeout=False)),
                     id="what its set propagates"),
        pytest.param(machine(notes={TIMEOUT: "1h"}, spec=SLOW), replace(PLAIN, own_timeout=True),
                     id="a creation timeout of its own is no part of that"),
        pytest.param(machine("Unknown", operation=BROKEN), replace(PLAIN, phase=Phase.UNKNOWN, failure_summary=SUMMARY),
                     id="what failed last"),
        pytest.param(machine("Unknown", operation=BROKEN, expiry=T0),
                     replace(PLAIN, phase=Phase.UNKNOWN, preserved_until=NOW, failure_summary=SUMMARY),
                     id="also while it is preserved, unless it is Failed"),
        pytest.param(machine("Failed", operation=BROKEN, expiry=T0),
                     replace(PLAIN, phase=Phase.FAILED, failed_at=NOW - 9, preserved_until=NOW), id="then it is left out"),
        pytest.param(machine("Unknown", operation=BROKEN, owner_references=()),
                     replace(PLAIN, owner_uid="", phase=Phase.UNKNOWN,
                             failure_summary=structs.replace(SUMMARY, owner_ref="")), id="of a machine without a set"),
    ],
)  # fmt: skip
def test_the_facts_of_a_machine(of: Machine, facts: MachineMember) -> None:
    assert member_of(of) == facts
    assert (member_of(of).version, of.metadata.resource_version) == ("7", "7")


@pytest.mark.parametrize(
    ("annotations", "priority"),
    [
        pytest.param({}, 3, id="3 where there is none"),
        pytest.param({names.PRIORITY_ANNOTATION: "1"}, 1, id="what it says"),
        pytest.param({names.PRIORITY_ANNOTATION: "high"}, 3, id="3 where it is no number"),
    ],
)
def test_the_priority_of_a_machine(annotations: dict[str, str], priority: int) -> None:
    assert member_of(machine(notes=annotations)).priority == priority


def test_one_that_cannot_be_read_is_known_by_its_metadata_and_all_have_the_labels_of_the_cache() -> None:
    header = headers.read(MACHINE.encode(machine(deletion_timestamp=T0)))
    bare = MachineMember(Key("ns", NAME), "u", "ms-uid", {"app": "a"}, deleting=True)
    assert read(header, None) == bare
    assert read(header, machine(deletion_timestamp=T0, labels={"app": "b"})).labels == {"app": "a"}


def test_timeouts_and_the_order_of_labels_in_the_digest() -> None:
    assert digest(SPEC, own_timeout=False) != digest(SLOW, own_timeout=False)
    assert digest(SPEC, own_timeout=True) == digest(SLOW, own_timeout=True)
    one, other = (
        structs.replace(
            SPEC,
            node_template=structs.replace(
                SPEC.node_template, metadata=ObjectMeta(labels={key: key for key in keys})
            ),
        )
        for keys in ("ab", "ba")
    )
    assert digest(one, own_timeout=False) == digest(other, own_timeout=False)


@pytest.mark.parametrize(
    ("facts", "kept"),
    [
        pytest.param({"preserved_until": NOW + 1}, True, id="until it expires"),
        pytest.param({"preserved_until": NOW}, False, id="not in the moment of its expiry"),
        pytest.param({"preserving": True, "failed_at": NOW - 599}, True, id="without an expiry for ten minutes"),
        pytest.param({"preserving": True, "failed_at": NOW - 600}, False, id="not longer"),
        pytest.param({"preserving": True}, True, id="nor is that known of one that has not failed"),
    ],
)  # fmt: skip
def test_a_failed_machine_is_kept(facts: dict[str, Any], kept: bool) -> None:
    assert replace(PLAIN, **facts).kept_at(NOW) is kept


@pytest.mark.parametrize(
    ("code", "node", "without"),
    [
        pytest.param("InvalidArgument", "", True, id="the driver refused to look for it"),
        pytest.param("InvalidArgument", "n1", False, id="it has a node, whatever is refused"),
        pytest.param("Aborted", "", False, id="the driver was not asked, or a creation is in doubt"),
    ],
)
def test_which_machine_in_deletion_has_no_vm(code: str, node: str, without: bool) -> None:
    last = {"type": "Delete", "state": "Failed", "errorCode": code}
    meta = {"name": "m1", "uid": "u1", "deletionTimestamp": "2030-01-01T00:00:00Z"}
    found = MACHINE.from_plain(
        {
            "metadata": {**meta, "labels": {"node": node} if node else {}},
            "status": {"lastOperation": last},
        }
    )
    assert member_of(found).without_vm is without
