"""What is seen of a class with its secrets, and whether a class or a secret holds our finalizer."""

from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec import structs

from kubewright.api.core import SECRET, Secret
from kubewright.api.machine import names
from kubewright.api.machine.v1alpha1 import (
    Machine,
    MachineClass,
    MachineClassCondition,
    MachineClassStatus,
    SecretReference,
)
from kubewright.api.meta import ObjectMeta
from kubewright.driver.errors import Code, DriverError, Unimplemented
from kubewright.driver.hot import written
from kubewright.kube import header as headers
from kubewright.kube.cache import Change
from kubewright.machines.caches import ClassSeen, class_seen, secret_keys
from kubewright.machines.machine.applied import condition, different
from kubewright.machines.machineclass import status_after
from kubewright.runtime.in_use import InUse, finalizers
from kubewright.testing.scenes import machine, minutes
from kubewright.wire.gvk import Key

OURS, THEIRS = "ours", "theirs"
CASES: list[tuple[str, list[str], dict[str, bool], list[str] | None]] = [
    ("used and without it: it is put on", [THEIRS], {"used": True}, [THEIRS, OURS]),
    ("used and with it: it stays", [OURS], {"used": True}, None),
    ("used and going: it stays", [OURS], {"used": True, "deleting": True}, None),
    ("used, going and without it: too late", [], {"used": True, "deleting": True}, None),
    ("unused and going: it goes, others stay", [OURS, THEIRS], {"deleting": True}, [THEIRS]),
    ("unused for now: it lingers", [OURS], {}, None),
    ("unused, and of a kind that does not linger: it goes", [OURS], {"lingers": False}, []),
    ("unused and without it", [THEIRS], {"lingers": False}, None),
]


@pytest.mark.parametrize(
    ("present", "situation", "expected"), [c[1:] for c in CASES], ids=[c[0] for c in CASES]
)
def test_finalizers(present: list[str], situation: dict[str, Any], expected: list[str] | None) -> None:
    defaults = {"used": False, "deleting": False, "lingers": True}
    assert finalizers(present, OURS, **{**defaults, **situation}) == expected


@pytest.mark.parametrize(
    ("present", "used", "expected"),
    [
        pytest.param([THEIRS], False, False, id="no user, and without it: nothing can follow"),
        pytest.param([THEIRS], True, True, id="with a user"),
        pytest.param([OURS], False, True, id="with it: it may have to go"),
    ],
)
def test_a_change_of_an_object_matters(present: list[str], used: bool, expected: bool) -> None:
    meta = ObjectMeta(name="s", namespace="n", uid="u", resource_version="1", finalizers=tuple(present))
    header = headers.read(SECRET.encode(Secret(metadata=meta)))
    change = Change(header.key, None, header, lambda each: SECRET.decode(each.data))
    nothing: Any = None  # no write, no event, and no look into a cache
    in_use = InUse(nothing, nothing, nothing, lambda _key: used, OURS, lingers=False)
    assert list(in_use.to_keys(change)) == [header.key] * expected


SECRETS = {
    Key("garden", "user-data"): Secret(
        metadata=ObjectMeta(resource_version="5"), data={"userData": b"boot", "key": b"old"}
    ),
    Key("vault", "keys"): Secret(metadata=ObjectMeta(resource_version="7"), data={"key": b"new"}),
}
USER_DATA, KEYS = SecretReference(name="user-data"), SecretReference(name="keys", namespace="vault")
LOST, NAMELESS = SecretReference(name="lost"), SecretReference(namespace="vault")
LOST_TEXT = 'Secret "garden/lost" of MachineClass "small" not found'


def of(user_data: SecretReference | None, credentials: SecretReference | None = None) -> MachineClass:
    meta = ObjectMeta(name="small", namespace="garden", uid="c1", generation=2)
    return MachineClass(metadata=meta, secret_ref=user_data, credentials_secret_ref=credentials)


@pytest.mark.parametrize(
    ("found", "data", "version"),
    [
        pytest.param(of(None), {}, "c1/2", id="a class that names no secret needs none"),
        pytest.param(of(USER_DATA), {"userData": b"boot", "key": b"old"}, "c1/2/5", id="one secret"),
        pytest.param(
            of(USER_DATA, KEYS),
            {"userData": b"boot", "key": b"new"},
            "c1/2/5/7",
            id="the keys of credentials override those of secretRef",
        ),
    ],
)
def test_a_class_with_its_secrets(found: MachineClass, data: dict[str, bytes], version: str) -> None:
    seen = class_seen(found, SECRETS.get)
    assert seen == ClassSeen(found, Secret(data=data), version=version)
    assert seen.can_call


@pytest.mark.parametrize(
    ("found", "problem", "keys"),
    [
        pytest.param(of(LOST), LOST_TEXT, ["lost"], id="its only secret is missing"),
        pytest.param(of(USER_DATA, LOST), LOST_TEXT, ["user-data", "lost"], id="its credentials are missing"),
        pytest.param(
            of(LOST, KEYS), LOST_TEXT, ["lost", "keys"], id="the present secret is not used without the other"
        ),
        pytest.param(of(LOST, LOST), f"{LOST_TEXT}; {LOST_TEXT}", ["lost", "lost"], id="each is named"),
        pytest.param(
            of(USER_DATA, NAMELESS),
            'a secret reference of MachineClass "small" has no name',
            ["user-data"],
            id="a reference without a name is to no secret",
        ),
    ],
)
def test_without_all_its_secrets_no_driver_is_called(
    found: MachineClass, problem: str, keys: list[str]
) -> None:
    seen = class_seen(found, SECRETS.get)
    assert seen == ClassSeen(found, secret_missing=True, problem=problem)
    assert not seen.can_call
    assert [key.name for key in secret_keys(found)] == keys


def test_without_its_class_no_driver_is_called() -> None:
    assert not ClassSeen(problem="not found").can_call


@pytest.mark.parametrize(("status", "left"), [("False", 0), ("Unknown", 0), ("True", 1)])
def test_what_a_driver_said_once_against_a_class_goes_when_nobody_can_judge_it(
    status: str, left: int
) -> None:
    known = MachineClassCondition(type="Accepted", status=status, reason="PermissionDenied", message="no")
    before = MachineClassStatus(conditions=(known,))
    assert len(status_after(before, None, datetime(2030, 1, 1, tzinfo=UTC)).conditions) == left


def test_a_secret_that_is_missing_speaks_against_a_class_that_nothing_was_said_of() -> None:
    now = datetime(2030, 1, 1, tzinfo=UTC)
    missing = MachineClassCondition(
        type="Accepted", status="Unknown", reason="SecretMissing", message=LOST_TEXT
    )
    (told,) = status_after(MachineClassStatus(), missing, now).conditions
    assert (told.status, told.reason, told.message) == ("Unknown", "SecretMissing", LOST_TEXT)
    accepted = structs.replace(missing, status="True", reason="Accepted", message="")
    assert status_after(MachineClassStatus(), accepted, now) == MachineClassStatus()


def of_class(spec: dict[str, Any], **changes: Any) -> Machine:
    """A machine whose VM has this providerSpec."""
    made = machine(changes.pop("phase", "Running"), **changes)
    notes = {names.APPLIED_SPEC_ANNOTATION: written(spec), names.APPLIED_CLASS_ANNOTATION: "small"}
    return structs.replace(made, metadata=structs.replace(made.metadata, annotations=notes))


SMALL, LARGE, TAGGED = {"type": "s"}, {"type": "l"}, {"type": "s", "tags": {"a": "1"}}
CLASS_OF_TAGGED = MachineClass(metadata=ObjectMeta(name="small"), provider_spec=TAGGED)
APPLIED: dict[str, tuple[list[Machine], tuple[str, str, str]]] = {
    "no machine": ([], ("True", "Applied", "")),
    "all have it": ([of_class(TAGGED)], ("True", "Applied", "")),
    "some get it": ([of_class(TAGGED), of_class(SMALL)], ("True", "Applied", "")),
    "one has another fixed field": ([of_class(TAGGED), of_class(LARGE)], ("False", "FixedFieldsDiffer", "providerSpec.type")),
    "one that is Failed is replaced anyway": ([of_class(LARGE, phase="Failed")], ("True", "Applied", "")),
    "and so is one that is being deleted": ([of_class(LARGE, phase="", deleted=minutes(1))], ("True", "Applied", "")),
    "one without a VM will be made by it": ([of_class(LARGE, vm=False)], ("True", "Applied", "")),
}  # fmt: skip


@pytest.mark.parametrize(("machines", "says"), APPLIED.values(), ids=APPLIED.keys())
def test_a_class_says_whether_its_machines_have_what_it_says(
    machines: list[Machine], says: tuple[str, str, str]
) -> None:
    found = condition(CLASS_OF_TAGGED, machines, lambda _class: ["tags"])
    assert found is not None
    assert (found.type, found.status, found.reason) == ("Applied", *says[:2])
    assert says[2] in found.message


def test_a_class_of_a_driver_without_updates_says_that_too() -> None:
    def none(_class: MachineClass) -> list[str]:
        raise Unimplemented("no updates")

    found = condition(CLASS_OF_TAGGED, [of_class(SMALL)], none)
    assert found is not None
    assert (found.status, found.reason) == ("False", "NoUpdates")
    assert "its driver changes no VM that runs, so it does not get providerSpec.tags.a" in found.message


def test_while_a_driver_cannot_say_what_it_can_change_nothing_is_known_of_the_machines_of_a_class() -> None:
    def later(_class: MachineClass) -> list[str]:
        raise DriverError.of(Code.Unavailable, "not connected")

    assert condition(CLASS_OF_TAGGED, [of_class(SMALL)], later) is None


def test_machines_that_are_alike_are_compared_once() -> None:
    asked: list[str] = []

    def hot(of: MachineClass) -> list[str]:
        asked.append(of.name)
        return ["tags"]

    assert len(different(CLASS_OF_TAGGED, [of_class(SMALL)] * 500 + [of_class(LARGE)] * 500, hot)) == 2
    assert len(asked) == 2
