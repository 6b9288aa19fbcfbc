"""Which objects an owner selects, and the patches by which it adopts and disowns them."""

from typing import Any

import pytest
from tests.unit.replicas.things import DEPLOYMENTS, GROUP, SELECTOR, T0, SetSpec, Thing, ThingSet, deployment

from kubewright.api.meta import LabelSelector, ObjectMeta, OwnerReference, Requirement
from kubewright.replicas.objects import (
    adopted,
    contradicts_template,
    disowned,
    namespace_if_uncontrolled,
    read_selector,
    reference,
    selecting,
)
from kubewright.wire.gvk import Key
from kubewright.wire.selectors import NOTHING

OURS = OwnerReference(
    api_version=f"{GROUP}/v1",
    kind="ThingDeployment",
    name="d",
    uid="d-uid",
    controller=True,
    block_owner_deletion=True,
)
THEIRS = OwnerReference(api_version="v1", kind="Other", name="o", uid="o-uid")
TOLD = {
    "apiVersion": f"{GROUP}/v1",
    "kind": "ThingDeployment",
    "name": "d",
    "uid": "d-uid",
    "controller": True,
    "blockOwnerDeletion": True,
}
EXACTLY = {"uid": "t-uid", "resourceVersion": "7"}


def thing(*owners: OwnerReference) -> Thing:
    meta = ObjectMeta(
        name="t", namespace="ns", uid="t-uid", resource_version="7", creation_timestamp=T0, owner_references=owners
    )  # fmt: skip
    return Thing(metadata=meta)


def owner(name: str, selector: LabelSelector | None) -> ThingSet:
    return ThingSet(metadata=ObjectMeta(name=name, namespace="ns"), spec=SetSpec(selector=selector))


@pytest.mark.parametrize(
    ("selector", "selects"),
    [
        pytest.param(SELECTOR, True, id="one that is there"),
        pytest.param(None, False, id="a missing one selects nothing"),
        pytest.param(LabelSelector(), False, id="nor does an empty one"),
    ],
)
def test_a_selector_is_read(selector: LabelSelector | None, selects: bool) -> None:
    found, problem = read_selector(selector)
    assert (found.matches({"app": "a"}), found.matches({"app": "b"}), problem) == (selects, False, "")


def test_a_wrong_selector_selects_nothing_and_says_why() -> None:
    wrong = Requirement(key="app", operator="Odd")
    found, problem = read_selector(LabelSelector(match_expressions=(wrong,)))
    assert (found, problem) == (NOTHING, 'spec.selector: "Odd" is not a valid label selector operator')


@pytest.mark.parametrize(
    ("selector", "labels", "problem"),
    [
        pytest.param(SELECTOR, {"app": "a", "more": "x"}, "", id="one that selects the template"),
        pytest.param(
            SELECTOR, {"app": "b"}, "does not match the labels of spec.template", id="one that does not"
        ),
        pytest.param(None, {"app": "a"}, "is missing or empty: set it to labels", id="a missing one"),
        pytest.param(
            LabelSelector(), {"app": "a"}, "is missing or empty: set it to labels", id="an empty one"
        ),
    ],
)
def test_what_is_wrong_with_a_selector_is_said(
    selector: LabelSelector | None, labels: dict[str, str], problem: str
) -> None:
    said = contradicts_template(selector, read_selector(selector)[0], labels)
    assert said.startswith(f"spec.selector: {problem}") if problem else said == ""


def test_an_owner_is_the_controller_of_what_it_adopts() -> None:
    assert reference(deployment(), DEPLOYMENTS) == OURS
    assert namespace_if_uncontrolled(thing(THEIRS)) == ("ns",)
    assert namespace_if_uncontrolled(thing(OURS)) == ()


def test_owners_that_select_some_labels() -> None:
    owners = (owner("a", SELECTOR), owner("b", LabelSelector(match_labels={"app": "b"})), owner("c", None))
    assert selecting(owners, {"app": "a"}) == {Key("ns", "a")}


def references(patch: Any) -> list[Any] | None:
    found = patch["metadata"].pop("ownerReferences")
    assert patch == {"metadata": EXACTLY}
    return [each["uid"] for each in found] if found is not None else None


def test_references_of_other_owners_stay_and_a_patch_names_what_was_read() -> None:
    assert references(adopted(thing(THEIRS), OURS)) == ["o-uid", "d-uid"]
    assert references(adopted(thing(), OURS)) == ["d-uid"]
    assert references(disowned(thing(THEIRS, OURS), deployment())) == ["o-uid"]
    assert references(disowned(thing(OURS), deployment())) is None
