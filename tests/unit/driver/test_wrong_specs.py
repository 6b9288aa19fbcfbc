"""What a user is told of a providerSpec that is wrong: the field, and what it may be."""

from enum import StrEnum
from typing import Annotated, Any, Literal

import msgspec
import pytest
from msgspec import Meta

from kubewright.driver.answers import provider_spec
from kubewright.driver.errors import InvalidArgument


class Speed(StrEnum):
    SLOW = "slow"
    FAST = "fast"


class Disk(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    size: int
    disk_speed: Speed = Speed.SLOW
    name: Annotated[str, Meta(pattern="^[a-z]+$", description="a word of small letters")] = "a"


class Spec(msgspec.Struct, forbid_unknown_fields=True):
    """A driver's own type."""

    disks: list[Disk] = []
    kind: Literal["", "spot", "reserved"] = ""
    by_name: dict[str, Disk] = {}
    maybe: Literal["x", "y"] | None = None
    plain: Annotated[str, Meta(pattern="^[0-9]+$")] = "1"


CASES: list[tuple[dict[str, Any], str]] = [
    ({"kind": "owned"}, "kind: Invalid enum value 'owned'; it may be reserved, spot"),
    ({"disks": [{"size": 1}, {"size": 1, "diskSpeed": "warp"}]},
     "disks[1].diskSpeed: Invalid enum value 'warp'; it may be slow, fast"),
    ({"by_name": {"a": {"size": 1, "diskSpeed": "warp"}}},
     "by_name[...].diskSpeed: Invalid enum value 'warp'; it may be slow, fast"),
    ({"maybe": "z"}, "maybe: Invalid enum value 'z'; it may be x, y"),
    ({"disks": [{"size": 1, "name": "A"}]}, "disks[0].name: Expected a word of small letters"),
    ({"plain": "a"}, "plain: Expected `str` matching regex '^[0-9]+$'"),
    ({"disks": [{"size": "1"}]}, "disks[0].size: Expected `int`, got `str`"),
    ({"discs": []}, "Object contains unknown field `discs`"),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "said"), CASES, ids=[said for _, said in CASES])
def test_a_field_that_is_wrong_is_told_with_what_it_may_be(spec: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        provider_spec(spec, Spec)
    assert refused.value.message == f"providerSpec: {said}"
