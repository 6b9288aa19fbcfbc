"""Old classes: what comes next for one, how one is marked, and what drivers make of one."""

from typing import Any

import pytest
from msgspec import structs

from kubewright.api.machine import names
from kubewright.api.machine.v1alpha1 import ClassNodeTemplate, ClassSpec, MachineClass, SecretReference
from kubewright.api.meta import ObjectMeta
from kubewright.base.clock import SystemClock
from kubewright.driver.contract import OldClass
from kubewright.driver.errors import InvalidArgument
from kubewright.driver.guard import GuardedDriver
from kubewright.driver.registry import RoutedDriver
from kubewright.machines.migration.old_classes import Follow, Make, OldClasses, Trouble, decide, migrated
from kubewright.providers.aws.driver import AwsDriver
from kubewright.providers.aws.spec import OLD_KIND, Options, parse_spec
from kubewright.wire.gvk import Key

KIND, KEY = "AWSMachineClass", Key("garden", "test-aws")
OLD: dict[str, Any] = {
    "apiVersion": "machine.sapcloud.io/v1alpha1",
    "kind": KIND,
    "metadata": {"name": "test-aws", "namespace": "garden", "finalizers": [names.FINALIZER, "other/one"]},
    "spec": {
        "ami": "ami-c0ffee0123456789a",
        "region": "eu-west-1",
        "machineType": "t2.xlarge",
        "keyName": "me",
        "monitoring": True,
        "iam": {"name": "nodes"},
        "networkInterfaces": [{"subnetID": "subnet-1", "securityGroupIDs": ["sg-1"]}],
        "blockDevices": [{"ebs": {"volumeSize": 50, "volumeType": "gp2"}}],
        "tags": {"kubernetes.io/cluster/shoot": "1", "kubernetes.io/role/node": "1"},
        "secretRef": {"name": "test-secret", "namespace": "garden"},
    },
}
MADE = MachineClass(provider="aws", provider_spec={"a": 1}, secret_ref=SecretReference(name="s"))
THERE = structs.replace(MADE, metadata=ObjectMeta(name="test-aws", namespace="garden"))
FROM_IT = structs.replace(
    THERE, metadata=structs.replace(THERE.metadata, annotations={names.MIGRATED_FROM_ANNOTATION: KIND})
)
CHANGED = structs.replace(FROM_IT, provider_spec={"a": 2})
NEXT = {
    "it is the first time": (OLD, None, MADE, Make),
    "the driver was not asked yet": (OLD, None, None, type(None)),
    "what the driver makes is there, made by a user": (OLD, THERE, MADE, Follow),
    "it was made from it": (OLD, FROM_IT, None, Follow),
    "it was made from it and changed since": (OLD, CHANGED, None, Follow),
    "it was made from it, and the old class is gone": (None, FROM_IT, None, Follow),
    "another kind of the same name was first": (
        OLD,
        structs.replace(CHANGED, metadata=ObjectMeta(annotations={names.MIGRATED_FROM_ANNOTATION: "Other"})),
        MADE,
        Trouble,
    ),
    "neither is there": (None, None, None, Trouble),
    "the driver makes a class that breaks rules": (
        OLD,
        None,
        structs.replace(MADE, node_template=ClassNodeTemplate()),
        Trouble,
    ),
    "a class of another provider has the name": (OLD, structs.replace(THERE, provider="x"), MADE, Trouble),
}


@pytest.mark.parametrize(("old", "there", "made", "wanted"), NEXT.values(), ids=NEXT)
def test_what_comes_next_for_an_old_class(old, there, made, wanted):
    assert type(decide(KIND, KEY, old, there, made)) is wanted


def test_a_class_in_deletion_is_followed_by_nothing():
    there = structs.replace(
        FROM_IT, metadata=structs.replace(FROM_IT.metadata, deletion_timestamp=SystemClock().now())
    )
    assert "is being deleted" in decide(KIND, KEY, OLD, there, None).text


def test_what_is_made_has_the_old_name_and_says_where_it_comes_from_whatever_the_driver_answers():
    odd = structs.replace(MADE, metadata=ObjectMeta(name="other", namespace="kube-system", labels={"a": "b"}))
    made = decide(KIND, KEY, OLD, None, odd).machine_class
    assert (made.metadata.name, made.metadata.namespace) == ("test-aws", "garden")
    assert made.metadata.labels == {"a": "b"}
    assert made.metadata.annotations == {names.MIGRATED_FROM_ANNOTATION: KIND}


def test_an_old_class_is_marked_in_mcms_words_and_let_go_once():
    assert migrated(OLD, KIND) == {
        "metadata": {
            "annotations": {"machine.sapcloud.io/migrated": "machine-controller-AWSMachineClass"},
            "finalizers": ["other/one"],
        }
    }
    done = {**OLD, "metadata": {**OLD["metadata"], **migrated(OLD, KIND)["metadata"]}}
    assert migrated(done, KIND) == {}


def test_only_kinds_that_a_driver_migrates_are_waited_for_and_their_troubles_are_told():
    known = OldClasses([OLD_KIND])
    ours = ClassSpec(kind=KIND, name="test-aws")
    assert known.of(ours) == OLD_KIND
    assert known.of(structs.replace(ours, api_group="other.example")) is None
    assert known.of(ClassSpec(kind="GCPMachineClass", name="x")) is None
    assert known.of(ClassSpec(kind="MachineClass", name="x")) is None
    assert not known.trouble(ours, "garden").absent
    assert known.note(KIND, KEY, Trouble("gone", absent=True))
    assert not known.note(KIND, KEY, Trouble("gone", absent=True))
    assert known.trouble(ours, "garden").absent
    known.forget(KEY, [])
    assert not known.trouble(ours, "garden").absent
    assert not OldClasses()


async def test_the_class_of_the_seed_becomes_a_machine_class_that_the_aws_driver_reads():
    routed = RoutedDriver(
        {"aws": GuardedDriver(AwsDriver(SystemClock(), Options()), SystemClock())}, "aws", strict=False
    )
    assert list(routed.migrated_kinds()) == [OLD_KIND]
    made = await routed.generate_machine_class(OldClass(OLD_KIND, OLD))
    assert made.provider == "aws"
    assert made.secret_ref == SecretReference(name="test-secret", namespace="garden")
    spec = parse_spec(made.provider_spec)
    assert (spec.ami, spec.machine_type, spec.region) == ("ami-c0ffee0123456789a", "t2.xlarge", "eu-west-1")
    assert spec.tags.vm == OLD["spec"]["tags"]
    assert made == await routed.generate_machine_class(OldClass(OLD_KIND, OLD))


STRANGE = {
    "no spec": (None, "spec"),
    "a list for a spec": ([], "spec"),
    "a reference that is a text": ({**OLD["spec"], "secretRef": "s"}, "secretRef"),
    "a field that no providerSpec has": ({**OLD["spec"], "amy": "x"}, "amy"),
    "no machine type": ({k: v for k, v in OLD["spec"].items() if k != "machineType"}, "machineType"),
}


@pytest.mark.parametrize(("spec", "field"), STRANGE.values(), ids=STRANGE)
async def test_an_old_class_that_the_driver_does_not_understand_is_an_invalid_argument_that_names_the_field(
    spec, field
):
    driver = GuardedDriver(AwsDriver(SystemClock(), Options()), SystemClock())
    with pytest.raises(InvalidArgument, match=field):
        await driver.generate_machine_class(OldClass(OLD_KIND, {**OLD, "spec": spec}))
