"""The order of API versions."""

import pytest

from kubewright.wire.gvk import by_preference, is_version, preferred


def test_versions_are_preferred_by_stability_then_number() -> None:
    given = ["v1alpha1", "foo", "v2beta1", "v10", "v1", "v2beta2", "v11alpha2"]
    assert by_preference(given) == ["v10", "v1", "v2beta2", "v2beta1", "v11alpha2", "v1alpha1", "foo"]


@pytest.mark.parametrize("name", ["v1", "v10", "v1beta1", "v2alpha13"])
def test_a_version_is_a_v_a_number_and_perhaps_a_stage(name: str) -> None:
    assert is_version(name)


@pytest.mark.parametrize("name", ["", "v", "1", "v1gamma1", "v1beta", "V1", "v1beta1 ", "v1_v2"])
def test_nothing_else_is_one(name: str) -> None:
    assert not is_version(name)


@pytest.mark.parametrize(
    ("given", "taken"),
    [
        ((), None),
        (("", "latest"), None),
        (("v1alpha4", "v1beta1"), "v1beta1"),
        (("v1beta1", "v1beta2", "nonsense"), "v1beta2"),
        (("v2alpha1", "v1"), "v1"),
    ],
)
def test_the_preferred_one_of_several_is_taken_and_what_is_no_version_never(given, taken) -> None:
    assert preferred(given) == taken
