"""What EC2's refusals mean, which rights the calls need, and how questions are gathered."""

import asyncio
from collections.abc import Mapping, Sequence

import pytest
from botocore.session import get_session

from kubewright.driver.errors import Code, DriverError
from kubewright.providers.aws.calls import CALLS, code_of, plain, policy
from kubewright.providers.aws.ec2 import Batches, Credentials, credentials
from kubewright.providers.aws.spec import parse_options
from kubewright.testing.clocks import LoopClock

CODES = [
    (
        "AuthFailure",
        "AWS was not able to validate the provided access credentials",
        401,
        Code.Unauthenticated,
    ),
    ("AuthFailure", "Not authorized for images: [ami-1]", 403, Code.PermissionDenied),
    ("ExpiredToken", "", 400, Code.Unauthenticated),
    ("RequestExpired", "", 400, Code.Unauthenticated),
    ("SignatureDoesNotMatch", "", 403, Code.Unauthenticated),
    ("UnauthorizedOperation", "", 403, Code.PermissionDenied),
    ("OptInRequired", "", 403, Code.PermissionDenied),
    ("InsufficientInstanceCapacity", "", 500, Code.ResourceExhausted),
    ("InsufficientHostCapacity", "", 500, Code.ResourceExhausted),
    ("InsufficientVolumeCapacity", "", 500, Code.ResourceExhausted),
    ("InsufficientAddressCapacity", "", 500, Code.ResourceExhausted),
    ("InsufficientFreeAddressesInSubnet", "", 400, Code.ResourceExhausted),
    ("InstanceLimitExceeded", "", 400, Code.ResourceExhausted),
    ("VcpuLimitExceeded", "", 400, Code.ResourceExhausted),
    ("MaxIOPSLimitExceeded", "", 400, Code.ResourceExhausted),
    ("MaxSpotInstanceCountExceeded", "", 400, Code.ResourceExhausted),
    ("SpotMaxPriceTooLow", "", 400, Code.ResourceExhausted),
    ("TagLimitExceeded", "", 400, Code.InvalidArgument),
    ("RequestLimitExceeded", "", 503, Code.Unavailable),
    ("Throttling", "", 400, Code.Unavailable),
    ("InternalError", "", 500, Code.Unavailable),
    ("ServiceUnavailable", "", 503, Code.Unavailable),
    ("NeverSeenBefore", "", 503, Code.Unavailable),
    ("NeverSeenBefore", "", 400, Code.Internal),
    ("InvalidAMIID.NotFound", "", 400, Code.InvalidArgument),
    ("InvalidAMIID.Unavailable", "", 400, Code.InvalidArgument),
    ("InvalidParameterCombination", "", 400, Code.InvalidArgument),
    ("InvalidInstanceID.NotFound", "", 400, Code.NotFound),
    ("MissingParameter", "", 400, Code.InvalidArgument),
    ("UnsupportedOperation", "", 400, Code.InvalidArgument),
    ("IncorrectInstanceState", "", 400, Code.FailedPrecondition),
    ("OperationNotPermitted", "may not be terminated", 400, Code.FailedPrecondition),
    ("IdempotentParameterMismatch", "", 400, Code.AlreadyExists),
]


@pytest.mark.parametrize(
    ("name", "text", "status", "code"), CODES, ids=[f"{each[0]} {each[2]}" for each in CODES]
)
def test_a_code_of_ec2_is_one_of_the_vocabulary(name: str, text: str, status: int, code: Code) -> None:
    assert code_of(name, text, status) is code


def test_a_message_has_one_line_and_no_key_signature_or_blob() -> None:
    assert (
        plain("You are not authorized.\nEncoded authorization failure message: Zm9v\nYmFy")
        == "You are not authorized."
    )
    assert plain("no AKIAIOSFODNN7EXAMPLE here") == "no (access key) here"
    assert "secret" not in plain(
        "It does not match. The Canonical String for this request should have been 'secret'"
    )
    assert len(plain("x" * 5000)) == 400


def test_every_call_is_one_of_the_library_and_of_the_policy() -> None:
    model = get_session().get_service_model("ec2")
    found = policy("blue", "arn:aws:iam::123456789012:role/nodes")
    actions = {action for each in found["Statement"] for action in each["Action"]}
    for name, call in CALLS.items():
        assert name in model.operation_names
        assert call.method == "".join(f"_{c.lower()}" if c.isupper() else c for c in name).lstrip("_")
        assert f"ec2:{name}" in actions
    assert actions - {f"ec2:{name}" for name in CALLS} == {"iam:PassRole"}


def test_what_changes_an_instance_may_change_those_of_the_cluster_only() -> None:
    for each in policy("blue", "arn:aws:iam::123456789012:role/nodes")["Statement"]:
        if {"ec2:TerminateInstances", "ec2:DeleteTags"} & set(each["Action"]):
            assert each["Condition"] == {"StringLike": {"aws:ResourceTag/kubernetes.io/cluster/blue": "*"}}
            assert "arn:aws:ec2:*:*:volume/*" in each["Resource"]
        elif "ec2:CreateTags" in each["Action"]:
            assert each["Condition"] == {"StringEquals": {"ec2:CreateAction": ["RunInstances"]}}


def test_credentials_are_in_no_repr() -> None:
    data = {"accessKeyID": b"AKIA1\n", "secretAccessKey": b"hush"}
    found = credentials(data, parse_options({}))
    assert (found.key_id, found.secret_key) == ("AKIA1", "hush")
    assert "hush" not in repr(found)
    assert found.digest != Credentials("AKIA1", "hus", "h").digest
    with pytest.raises(DriverError, match="secretAccessKey of the Secret is no text") as refused:
        credentials({**data, "secretAccessKey": b"\xff\xfe"}, parse_options({}))
    assert refused.value.code is Code.Unauthenticated
    for nonsense in (b"AKIA1\nX-Header: 1", b"AKIA 1", b"AKIA\x001"):
        with pytest.raises(DriverError, match="accessKeyID of the Secret has") as refused:
            credentials({**data, "accessKeyID": nonsense}, parse_options({}))
        assert refused.value.code is Code.Unauthenticated
        assert "AKIA" not in refused.value.message
    assert credentials({}, parse_options({"ambientCredentials": "true"})) == Credentials()
    with pytest.raises(DriverError):
        credentials({"accessKeyID": b"AKIA1"}, parse_options({"ambientCredentials": "true"}))


class Asked:
    """Answers each key with how many questions were asked until then."""

    def __init__(self) -> None:
        self.questions: list[Sequence[str]] = []

    async def fetch(self, keys: Sequence[str]) -> Mapping[str, int]:
        self.questions.append(keys)
        await asyncio.sleep(1)
        if "wrong" in keys:
            raise DriverError.of(Code.Unavailable, "no")
        return {key: len(self.questions) for key in keys if key != "none"}


async def test_questions_of_a_moment_are_one_and_a_later_one_has_an_answer_of_its_own() -> None:
    asked = Asked()
    batches = Batches(LoopClock(), asked.fetch)
    first = asyncio.gather(batches.of("a"), batches.of("b"), batches.of("a"), batches.of("none"))
    await asyncio.sleep(0.5)
    late = asyncio.create_task(batches.of("a"))
    assert await first == [1, 1, 1, None]
    assert await late == 2
    assert [sorted(each) for each in asked.questions] == [["a", "b", "none"], ["a"]]


async def test_a_failure_is_that_of_all_who_asked_and_of_no_other() -> None:
    asked = Asked()
    batches = Batches(LoopClock(), asked.fetch)
    failed = await asyncio.gather(batches.of("a"), batches.of("wrong"), return_exceptions=True)
    assert [getattr(each, "code", None) for each in failed] == [Code.Unavailable] * 2
    assert await batches.of("a") == 2


@pytest.mark.parametrize("wrong", [KeyError("Vcpus"), ValueError("invalid literal"), TypeError("None")])
async def test_an_answer_that_is_none_is_told_as_that_and_not_as_an_end(wrong: Exception) -> None:
    async def fetch(keys: Sequence[str]) -> Mapping[str, int]:
        raise wrong

    batches = Batches(LoopClock(), fetch)
    failed = await asyncio.gather(batches.of("a"), batches.of("b"), return_exceptions=True)
    for each in failed:
        assert isinstance(each, DriverError)
        assert (each.code, each.message) == (
            Code.Internal, f"an answer of EC2's is none: {type(wrong).__name__}: {wrong}",
        )  # fmt: skip


async def test_who_gives_up_takes_no_answer_from_others_and_an_end_is_told_to_all() -> None:
    asked = Asked()
    batches = Batches(LoopClock(), asked.fetch)
    given_up, waits = asyncio.create_task(batches.of("a")), asyncio.create_task(batches.of("a"))
    await asyncio.sleep(0.5)
    given_up.cancel()
    assert await waits == 1
    waits = asyncio.create_task(batches.of("b"))
    await asyncio.sleep(0.5)
    await batches.close()
    with pytest.raises(DriverError, match="ends its calls"):
        await waits


async def test_no_question_has_more_keys_than_ec2_takes() -> None:
    asked = Asked()
    batches = Batches(LoopClock(), asked.fetch)
    await asyncio.gather(*(batches.of(f"m{number}") for number in range(450)))
    assert [len(each) for each in asked.questions] == [200, 200, 50]
