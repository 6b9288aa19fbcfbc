#!/usr/bin/env bash
# moto's EC2 answers 200 to requests about interfaces that it does not carry out.
#
# Versions:  moto 5.2.5, boto3 1.43.2
# Guess:     TagSpecifications for interfaces are carried out for instance and volumes only. Of the rest nothing was guessed.
# Seen:      interfaces get no tags, instance and volumes do; AssignIpv6Addresses with a prefix count is answered with an empty list; turning off
#            SourceDestCheck changes the instance's attribute and not its interface's, which at EC2 is the same one.
# Means:     a test that only looks at answers passes on moto and shows nothing: read the interface again, and expect moto to fail it.
#
# Needs Python with pip. Prints what was seen; ends with 1 when that is no longer so.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip -q --disable-pip-version-check install 'moto[ec2]==5.2.5' boto3==1.43.2
cat > seen.py <<'PY'
import boto3
from moto import mock_aws

TAGS = [{"Key": "kubernetes.io/cluster/demo", "Value": "1"}]
with mock_aws():
    ec2 = boto3.client("ec2", "eu-west-1", aws_access_key_id="a", aws_secret_access_key="b")
    image = ec2.describe_images(Owners=["amazon"])["Images"][0]["ImageId"]
    vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16", AmazonProvidedIpv6CidrBlock=True)["Vpc"]["VpcId"]
    block = ec2.describe_vpcs(VpcIds=[vpc])["Vpcs"][0]["Ipv6CidrBlockAssociationSet"][0]["Ipv6CidrBlock"]
    subnet = ec2.create_subnet(VpcId=vpc, CidrBlock="10.0.1.0/24", Ipv6CidrBlock=block.replace("/56", "/64"))
    made = ec2.run_instances(
        ImageId=image, MinCount=1, MaxCount=1, InstanceType="t3.small",
        NetworkInterfaces=[{"DeviceIndex": 0, "SubnetId": subnet["Subnet"]["SubnetId"]}],
        TagSpecifications=[{"ResourceType": kind, "Tags": TAGS} for kind in ("instance", "volume", "network-interface")],
    )["Instances"][0]
    instance, nic = made["InstanceId"], made["NetworkInterfaces"][0]["NetworkInterfaceId"]
    tagged = {each["ResourceType"] for each in ec2.describe_tags()["Tags"]}
    print("tagged:", *sorted(tagged))
    answer = ec2.assign_ipv6_addresses(NetworkInterfaceId=nic, Ipv6PrefixCount=1)
    print("prefixes assigned:", len(answer.get("AssignedIpv6Prefixes", [])))
    ec2.modify_instance_attribute(InstanceId=instance, SourceDestCheck={"Value": False})
    print("instance checks:", ec2.describe_instances()["Reservations"][0]["Instances"][0]["SourceDestCheck"])
    print("its interface checks:", ec2.describe_network_interfaces()["NetworkInterfaces"][0]["SourceDestCheck"])
PY
cat > expected <<'END'
tagged: instance volume
prefixes assigned: 0
instance checks: False
its interface checks: True
END
venv/bin/python seen.py > seen
cat seen
diff expected seen
