#!/usr/bin/env bash
# moto's EC2 does twice what EC2 does once: a repeated launch makes two instances, a repeated termination is refused.
#
# Versions:  moto 5.2.5, boto3 1.43.2
# Guess:     ClientToken is ignored. Of a second TerminateInstances nothing was guessed; EC2 answers "terminated".
# Seen:      two RunInstances with one ClientToken make two instances; the second TerminateInstances of an instance whose interface goes with it
#            is refused with InvalidNetworkInterfaceID.NotFound.
# Means:     a client library that repeats a request whose answer was lost leaks an instance on moto, or cannot delete one, and does neither
#            at EC2: idempotency has to be tested with something before moto that remembers tokens and answers.
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
from botocore.exceptions import ClientError
from moto import mock_aws

with mock_aws():
    ec2 = boto3.client("ec2", "eu-west-1", aws_access_key_id="a", aws_secret_access_key="b")
    image = ec2.describe_images(Owners=["amazon"])["Images"][0]["ImageId"]
    vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    subnet = ec2.create_subnet(VpcId=vpc, CidrBlock="10.0.1.0/24")["Subnet"]["SubnetId"]
    wanted = {
        "ImageId": image, "MinCount": 1, "MaxCount": 1, "InstanceType": "t3.small", "ClientToken": "machine-1",
        "NetworkInterfaces": [{"DeviceIndex": 0, "SubnetId": subnet, "DeleteOnTermination": True}],
    }
    made = {ec2.run_instances(**wanted)["Instances"][0]["InstanceId"] for _ in range(2)}
    print("two launches with one token:", len(made), "instances")
    one = made.pop()
    for time in ("first", "second"):
        try:
            answer = ec2.terminate_instances(InstanceIds=[one])["TerminatingInstances"][0]["CurrentState"]["Name"]
        except ClientError as error:
            answer = error.response["Error"]["Code"]
        print(time, "termination:", answer)
PY
cat > expected <<'END'
two launches with one token: 2 instances
first termination: shutting-down
second termination: InvalidNetworkInterfaceID.NotFound
END
venv/bin/python seen.py > seen
cat seen
diff expected seen
