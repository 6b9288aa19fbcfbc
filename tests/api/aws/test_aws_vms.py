"""What the aws driver makes of machines at EC2, and what it makes of what it finds there."""

import asyncio
import base64
import gzip
import json
import random
from dataclasses import replace
from datetime import timedelta

import pytest
from msgspec import structs

from kubewright.driver.contract import ClassRequest, MachineRequest, VolumeSpec
from kubewright.driver.errors import Code, DriverError, InvalidArgument, NotFound, Uninitialized
from kubewright.providers.aws.driver import ATTEMPTS

from .bench import SECRET, opened
from .ec2 import Place

pytestmark = pytest.mark.looptime(False)


def tags_of(found: list[dict[str, str]]) -> dict[str, str]:
    return {each["Key"]: each["Value"] for each in found}


async def test_an_instance_its_volumes_and_its_data_are_as_the_class_says(place: Place) -> None:
    async with opened(place) as bench:
        disks = [
            {"deviceName": "/root", "ebs": {"volumeSize": 20, "volumeType": "gp3"}},
            {
                "deviceName": "/dev/sdf",
                "ebs": {"volumeSize": 5, "volumeType": "gp2", "deleteOnTermination": False},
            },
        ]
        of = bench.class_of(blockDevices=disks, tags=bench.tags_of_class(team="blue", Name="not-this"))
        made = await bench.made.create(bench.request(of=of, userData=b"hello"))
        (vm,) = bench.place.instances(bench.cluster)
        assert made.provider_id == f"aws:///eu-west-1/{vm['InstanceId']}"
        assert made.node_name == vm["PrivateDnsName"]
        assert ("InternalIP", vm["PrivateIpAddress"]) in made.addresses
        found = tags_of(vm["Tags"])
        assert found["Name"] == "m1"
        assert found["team"] == "blue"
        assert found["kubewright.io/owner-uid"] == "uid-of-m1"
        mappings = {each["DeviceName"]: each["Ebs"] for each in vm["BlockDeviceMappings"]}
        assert set(mappings) == {vm["RootDeviceName"], "/dev/sdf"}, "/root is the root device of the AMI"
        volumes = place.client.describe_volumes(VolumeIds=[each["VolumeId"] for each in mappings.values()])[
            "Volumes"
        ]
        assert all(tags_of(each["Tags"])["Name"] == "m1" for each in volumes)
        assert sorted(each["Size"] for each in volumes) == [5, 20]
        data = place.client.describe_instance_attribute(InstanceId=vm["InstanceId"], Attribute="userData")
        assert base64.b64decode(data["UserData"]["Value"]) == b"hello"
        assert vm["MetadataOptions"]["HttpTokens"] == "required", "IMDSv2 where the class does not say it"


async def test_data_that_is_too_large_is_packed_and_refused_only_if_that_is_too_large(place: Place) -> None:
    async with opened(place) as bench:
        large = b"#cloud-config\n" * 2000
        await bench.made.create(bench.request(userData=large))
        data = place.client.describe_instance_attribute(InstanceId=bench.live[0], Attribute="userData")
        assert gzip.decompress(base64.b64decode(data["UserData"]["Value"])) == large
        noise = random.Random(1).randbytes(30_000)
        with pytest.raises(
            InvalidArgument, match=r"30000 bytes, \d+ of them when they are packed, and EC2 takes 16384"
        ):
            await bench.made.create(bench.request("m2", userData=noise))


async def test_what_a_launch_cannot_express_is_done_after_it_and_missed_until_then(place: Place) -> None:
    async with opened(place) as bench:
        one = {"subnetID": place.subnet, "securityGroupIDs": [place.group], "ipv6PrefixCount": 1}
        of = bench.class_of(srcAndDstChecksEnabled=False, networkInterfaces=[one])
        request = bench.request(of=of)
        made = await bench.made.create(request)
        with pytest.raises(Uninitialized) as missed:
            await bench.another().status(request)
        assert (missed.value.provider_id, missed.value.node_name) == (made.provider_id, made.node_name)
        bench.ec2.errors = {"ModifyInstanceAttribute": [("IncorrectInstanceState", "not running yet", 400)]}
        with pytest.raises(Uninitialized, match="IncorrectInstanceState"):
            await bench.made.initialize(request)
        await bench.made.initialize(request)
        await bench.made.initialize(request)
        assert (await bench.made.status(request)).provider_id == made.provider_id
        assert place.instances(bench.cluster)[0]["SourceDestCheck"] is False
        assert sum(bench.ec2.prefixes.values()) == 1, "what is there is not asked for again"


async def test_a_vm_that_no_list_shows_yet_is_found_made_once_and_deleted(place: Place) -> None:
    async with opened(place) as bench:
        bench.ec2.unshown_when_made = True
        request = bench.request(of=bench.class_of())
        made = await bench.made.create(request)
        assert (await bench.made.status(request)).provider_id == made.provider_id
        assert (await bench.another().create(request)).provider_id == made.provider_id, "by its ClientToken"
        assert len(bench.live) == 1
        deletion = asyncio.create_task(bench.made.delete(bench.request(provider_id=made.provider_id)))
        await asyncio.wait([deletion], timeout=0.3)
        assert not deletion.done(), "its end has to be shown"
        bench.ec2.unshown.clear()
        await deletion
        assert bench.live == []


async def test_a_vm_that_no_list_shows_yet_is_completed_once(place: Place) -> None:
    async with opened(place) as bench:
        bench.ec2.unshown_when_made = True
        one = {"subnetID": place.subnet, "securityGroupIDs": [place.group], "ipv6PrefixCount": 1}
        request = bench.request(of=bench.class_of(srcAndDstChecksEnabled=False, networkInterfaces=[one]))
        made = await bench.made.create(request)
        with pytest.raises(Uninitialized):
            await bench.made.status(request)
        for _ in range(2):
            assert (await bench.made.initialize(request)).provider_id == made.provider_id
        assert (await bench.made.status(request)).provider_id == made.provider_id
        assert sum(bench.ec2.prefixes.values()) == 1


async def test_a_vm_without_a_name_yet_is_asked_for_again_and_is_listed_meanwhile(place: Place) -> None:
    async with opened(place) as bench:
        bench.ec2.nameless = True
        for call in (bench.made.create, bench.made.create, bench.made.status):
            with pytest.raises(DriverError, match=r"no private DNS name of VM i-.* too new") as failed:
                await call(bench.request())
            assert failed.value.code is Code.Unavailable
        assert len(await bench.made.list(bench.machine_class)) == 1
        bench.ec2.nameless = False
        made = await bench.made.create(bench.request())
        assert made.node_name
        assert bench.ec2.counts["RunInstances"] == 1


async def test_what_ec2_refuses_of_a_deletion_is_no_mistake_of_the_class(place: Place) -> None:
    refusals = [("InvalidParameterCombination", "No."), ("UnsupportedOperation", "No.")]
    async with opened(place) as bench:
        await bench.made.create(bench.request())
        for name, text in refusals:
            bench.ec2.errors["TerminateInstances"] = [(name, text, 400)]
            with pytest.raises(DriverError, match=f"TerminateInstances: {name}: No") as failed:
                await bench.made.delete(bench.request())
            assert failed.value.code is Code.FailedPrecondition
        await bench.made.delete(bench.request())


async def test_an_address_where_nothing_listens_is_told_and_nothing_is_broken(place: Place) -> None:
    async with opened(place, endpointUrl="http://127.0.0.1:1") as bench:
        for call in (bench.made.status(bench.request()), bench.made.create(bench.request())):
            with pytest.raises(DriverError, match="DescribeInstances: Could not connect") as failed:
                await call
            assert failed.value.code is Code.Unavailable


async def test_a_new_vm_that_another_process_made_and_no_list_shows_is_not_taken_for_gone(
    place: Place,
) -> None:
    async with opened(place) as bench:
        bench.ec2.unshown_when_made = True
        made = await bench.made.create(bench.request())
        other, asked = bench.another(), bench.request(provider_id=made.provider_id)
        now = bench.made._clock.now()
        for age, code in ((timedelta(minutes=1), Code.Unavailable), (timedelta(minutes=9), Code.NotFound)):
            meta = structs.replace(asked.machine.metadata, creation_timestamp=now - age)
            machine = structs.replace(asked.machine, metadata=meta)
            with pytest.raises(DriverError) as refused:
                await other.delete(MachineRequest(machine, asked.machine_class, asked.secret))
            assert refused.value.code is code


async def test_after_a_vm_has_ended_the_next_one_has_another_token_up_to_a_bound(place: Place) -> None:
    async with opened(place) as bench:
        seen: set[str] = set()
        for _ in range(ATTEMPTS):
            made = await bench.made.create(bench.request())
            seen.add(made.provider_id)
            place.client.terminate_instances(InstanceIds=bench.live)
            with pytest.raises(NotFound):
                await bench.made.status(bench.request())
        assert len(seen) == ATTEMPTS
        with pytest.raises(DriverError, match=f"{ATTEMPTS} VMs were made for machine m1") as refused:
            await bench.made.create(bench.request())
        assert refused.value.code is Code.FailedPrecondition


async def test_a_vm_of_other_parameters_is_told_and_one_with_other_data_is_the_machines(place: Place) -> None:
    async with opened(place) as bench:
        made = await bench.made.create(bench.request())
        bench.ec2.unshown = set(bench.live)
        again = bench.another()
        with pytest.raises(DriverError) as doubtful:
            await again.create(bench.request(userData=b"a new token"))
        assert doubtful.value.code is Code.Aborted, "its request is known, and the VM is not shown"
        bench.ec2.unshown = set()
        assert (await again.create(bench.request(userData=b"a new token"))).provider_id == made.provider_id
        with pytest.raises(DriverError, match=r"machineType is m5.large and not m5.xlarge") as refused:
            await again.create(bench.request(of=bench.class_of(machineType="m5.xlarge")))
        assert refused.value.code is Code.AlreadyExists
        assert len(bench.live) == 1


async def test_several_vms_of_one_machine_are_out_of_range(place: Place) -> None:
    async with opened(place) as bench:
        await bench.made.create(bench.request())
        bench.ec2._runs.clear()  # as after a day, when EC2 has forgotten the token
        bench.ec2.unshown = set(bench.live)
        await bench.another().create(bench.request())
        bench.ec2.unshown = set()
        with pytest.raises(DriverError, match="machine m1 has 2 VMs: i-") as refused:
            await bench.another().status(bench.request())
        assert refused.value.code is Code.OutOfRange
        assert len(await bench.made.list(bench.machine_class)) == 2, "the second is found as an orphan"


async def test_a_vm_that_was_made_without_kubewright_is_found_by_its_name_in_its_cluster(
    place: Place,
) -> None:
    """As Gardener's provider makes them: without an owner."""
    async with opened(place) as bench:
        made = await bench.made.create(bench.request("shoot-worker-1"))
        own = [{"Key": f"kubewright.io/{each}"} for each in ("owner-uid", "namespace", "class")]
        place.client.delete_tags(Resources=bench.live, Tags=own)
        driver = bench.another()
        assert [each.owner_uid for each in await driver.list(bench.machine_class)] == [""]
        assert (await driver.create(bench.request("shoot-worker-1"))).provider_id == made.provider_id
        await driver.delete(bench.request("shoot-worker-1"))
        assert bench.live == []


async def test_no_vm_of_another_cluster_or_without_tags_is_listed_or_deleted(place: Place) -> None:
    async with opened(place) as bench, opened(place) as other:
        theirs = await other.made.create(other.request())
        by_hand = place.client.run_instances(ImageId=place.ami, MinCount=1, MaxCount=1)["Instances"][0][
            "InstanceId"
        ]
        for provider_id in (theirs.provider_id, f"aws:///eu-west-1/{by_hand}"):
            with pytest.raises(DriverError, match="does not carry the tags of cluster and role") as refused:
                await bench.made.delete(bench.request(provider_id=provider_id))
            assert refused.value.code is Code.FailedPrecondition
            with pytest.raises(NotFound):
                await bench.made.status(bench.request(provider_id=provider_id))
            with pytest.raises(NotFound):
                await bench.made.initialize(bench.request(provider_id=provider_id))
        assert await bench.made.list(bench.machine_class) == []
        assert len(other.live) == 1
        assert other.place.instances(other.cluster)[0]["SourceDestCheck"], "it is not changed"
        for provider_id in (theirs.provider_id, f"aws:///eu-west-1/{by_hand}"):
            made = await bench.made.create(bench.request(provider_id=provider_id))
            assert made.provider_id == f"aws:///eu-west-1/{bench.live[0]}", "nor taken for the machine's"
        place.client.terminate_instances(InstanceIds=[by_hand])


async def test_a_deletion_waits_until_the_instance_has_ended(place: Place) -> None:
    async with opened(place) as bench:
        bench.ec2.ends_after, driver = 2, bench.another(speed=10)
        requests = [bench.request(f"m{number}") for number in range(5)]
        await asyncio.gather(*(driver.create(each) for each in requests))
        before = bench.ec2.counts["DescribeInstances"]
        await asyncio.gather(*(driver.delete(each) for each in requests))
        assert set(bench.ec2.ending.values()) == {0}, "shown as ending until the last list"
        assert bench.ec2.counts["DescribeInstances"] - before <= 8, "one question for all of them"
        assert bench.live == []


async def test_volumes_that_are_kept_stay_and_those_of_the_vm_go(place: Place) -> None:
    async with opened(place) as bench:
        disks = [
            {"deviceName": "/root", "ebs": {"volumeSize": 20, "volumeType": "gp3"}},
            {
                "deviceName": "/dev/sdf",
                "ebs": {"volumeSize": 5, "volumeType": "gp2", "deleteOnTermination": False},
            },
        ]
        await bench.made.create(bench.request(of=bench.class_of(blockDevices=disks)))
        (vm,) = bench.place.instances(bench.cluster)
        kept = {
            each["Ebs"]["VolumeId"]: each["Ebs"]["DeleteOnTermination"] for each in vm["BlockDeviceMappings"]
        }
        await bench.made.delete(bench.request(of=bench.class_of(blockDevices=disks)))
        left = {each["VolumeId"] for each in place.client.describe_volumes()["Volumes"]}
        assert {each for each in kept if each in left} == {each for each, goes in kept.items() if not goes}


async def test_many_machines_cost_few_requests_each(place: Place) -> None:
    async with opened(place) as bench:
        count, driver = 25, bench.another(speed=4)
        names = [f"m{number}" for number in range(count)]

        async def life(name: str) -> str:
            with pytest.raises(NotFound):
                await driver.status(bench.request(name, bench.other_class))
            return (await driver.create(bench.request(name, bench.other_class))).provider_id

        made = await asyncio.gather(*(life(name) for name in names))
        assert len(set(made)) == count
        assert bench.ec2.counts.total() <= 2 * count
        bench.ec2.counts.clear()
        assert len(await driver.list(bench.other_class)) == count
        assert bench.ec2.counts.total() == 1
        bench.ec2.counts.clear()
        known = zip(names, made, strict=True)
        await asyncio.gather(*(driver.delete(bench.request(n, bench.other_class, i)) for n, i in known))
        assert bench.ec2.counts.total() <= 2 * count
        assert bench.live == []


async def test_a_list_has_all_pages(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kubewright.providers.aws.ec2.PAGE", 5)
    async with opened(place) as bench:
        await asyncio.gather(*(bench.made.create(bench.request(f"m{number}")) for number in range(12)))
        assert len(await bench.made.list(bench.machine_class)) == 12
        assert bench.ec2.counts["DescribeInstances"] >= 3


async def test_user_data_that_ec2_does_not_take_is_told_of_the_class_before_there_is_a_machine(
    place: Place,
) -> None:
    """One that fits when it is packed is taken; so is none at all, since a machine may bring its own."""

    def of_class(data: bytes) -> ClassRequest:
        usual = bench.machine_class
        return replace(usual, secret=structs.replace(usual.secret, data={**SECRET, "userData": data}))

    async with opened(place) as bench:
        asked = bench.ec2.counts.total()
        for data in (b"", b"#cloud-config\n" * 3000):
            await bench.made.validate(of_class(data))
        assert asked < bench.ec2.counts.total()
        noise = random.Random(1).randbytes(20_000)
        refused = r"userData: 20000 bytes, 20\d\d\d of them when they are packed, and EC2 takes 16384"
        with pytest.raises(InvalidArgument, match=refused):
            await bench.made.validate(of_class(noise))


async def test_a_class_is_judged_by_image_and_machine_type_before_there_is_a_machine(place: Place) -> None:
    async with opened(place) as bench:
        await bench.made.validate(bench.machine_class)
        wrong = [
            ({"ami": place.arm_ami}, r"ami: \S+ is for arm64, and m5.large is x86_64"),
            ({"ami": "ami-00000000"}, "ami: there is no ami-00000000 in eu-west-1 that this account may use"),
            ({"machineType": "m5.immense"}, "machineType: there is no m5.immense in eu-west-1"),
        ]
        for spec, text in wrong:
            with pytest.raises(InvalidArgument, match=text):
                await bench.made.validate(bench.class_of(**spec))
        denied = ("UnauthorizedOperation", "no", 403)
        bench.ec2.errors = {"DescribeInstanceTypes": [denied]}
        await bench.another().validate(bench.machine_class)
        size = await bench.made.size(bench.machine_class)
        assert (size.capacity["cpu"], size.capacity["memory"], size.architecture) == ("2", "8192Mi", "amd64")


async def test_credentials_come_from_the_secret_and_from_this_process_only_where_it_may(place: Place) -> None:
    async with opened(place) as bench:
        gardener = {"accessKeyID": b"AKIAOTHER00000000000", "secretAccessKey": b"hush", "userData": b"x"}
        request = bench.request()
        other = MachineRequest(
            request.machine, request.machine_class, structs.replace(request.secret, data=gardener)
        )
        await bench.made.create(other)
        for lacking, text in (
            ("providerAccessKeyId", "no providerAccessKeyId or accessKeyID"),
            ("providerSecretAccessKey", "no providerSecretAccessKey or secretAccessKey"),
        ):
            data = {key: value for key, value in SECRET.items() if key != lacking}
            with pytest.raises(DriverError, match=text) as refused:
                await bench.made.status(
                    MachineRequest(
                        request.machine, request.machine_class, structs.replace(request.secret, data=data)
                    )
                )
            assert refused.value.code is Code.Unauthenticated
            assert "hush" not in str(refused.value)
        none = MachineRequest(
            request.machine, request.machine_class, structs.replace(request.secret, data={"userData": b"x"})
        )
        with pytest.raises(DriverError, match="may not use its own"):
            await bench.made.status(none)


async def test_credentials_of_this_process_are_used_where_the_administrator_allows_it(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAPROCESS000000000")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hush")
    async with opened(place, ambientCredentials="true") as bench:
        request = bench.request()
        secret = structs.replace(request.secret, data={"userData": b"x"})
        made = await bench.made.create(MachineRequest(request.machine, request.machine_class, secret))
        assert made.provider_id.endswith(bench.live[0])


async def test_who_gives_this_process_no_credentials_stops_only_those_who_need_them(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID", raising=False)

    async def never_answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    silent = await asyncio.start_server(never_answer, "127.0.0.1", 0)
    url = "http://{}:{}/".format(*silent.sockets[0].getsockname())
    monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", url)
    async with silent, opened(place, ambientCredentials="true") as bench:
        request = bench.request()
        secret = structs.replace(request.secret, data={"userData": b"x"})
        driver = bench.another(call_seconds=1.0)
        with pytest.raises(DriverError, match="no credentials within 1 s") as refused:
            await driver.status(MachineRequest(request.machine, request.machine_class, secret))
        assert refused.value.code is Code.Unavailable
        with pytest.raises(NotFound):
            await driver.status(request)


async def test_spot_instances_may_be_taken_away_and_say_so(place: Place) -> None:
    async with opened(place) as bench:
        made = await bench.made.create(bench.request(of=bench.class_of(spotPrice="")))
        assert made.interruptible
        assert not (await bench.made.create(bench.request("m2"))).interruptible


async def test_no_secret_is_in_a_log_or_an_error(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    async with opened(place) as bench:
        refusal = "SignatureDoesNotMatch", "The signature does not match. The canonical string was: hush", 403
        bench.ec2.errors = {"DescribeInstances": [refusal]}
        with pytest.raises(DriverError) as refused:
            await bench.made.status(bench.request())
        said = capsys.readouterr()
        assert "hush" not in f"{refused.value}{refused.value.__cause__}{said.out}{said.err}"
        assert "hush" not in repr(bench.made._accounts) + json.dumps(list(map(str, bench.ec2.requests)))


async def test_the_ids_of_volumes_follow_from_the_objects_alone(place: Place) -> None:
    async with opened(place) as bench:
        volumes, ids = bench.volumes()
        assert await bench.made.volume_ids([*volumes, VolumeSpec("odd", {"csi": None})]) == ids
        assert bench.ec2.counts.total() == 0
