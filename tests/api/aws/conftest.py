"""One EC2 for all tests of a process: moto, without a server of its own."""

from collections.abc import Iterator
from functools import partial
from io import BytesIO
from typing import Any

import boto3
import pytest
from botocore.awsrequest import AWSResponse

from .ec2 import ADMINISTRATOR, REGION, Place, moto


class Raw(BytesIO):
    """An answer's body, as botocore reads it."""

    def stream(self, **_: Any) -> Iterator[bytes]:
        yield self.read()


def answered(service: str, request: Any, **_: Any) -> AWSResponse:
    """The answer to a request of boto3, from moto in this process: no thread, no socket."""
    headers = {
        name: value.decode() if isinstance(value, bytes) else value for name, value in request.headers.items()
    }
    answer = moto(service).post("/", data=request.body, headers=headers, base_url=request.url)
    return AWSResponse(request.url, answer.status_code, answer.headers, Raw(answer.data))


def administrator(service: str) -> Any:
    client = boto3.client(
        service, region_name=REGION, aws_access_key_id=ADMINISTRATOR, aws_secret_access_key="unused"
    )
    client.meta.events.register(f"before-send.{service}", partial(answered, service))
    return client


@pytest.fixture(scope="session")
def place() -> Place:
    client = administrator("ec2")
    administrator("iam").create_instance_profile(InstanceProfileName="nodes")
    images = {each["Architecture"]: each["ImageId"] for each in client.describe_images()["Images"]}
    subnet = client.describe_subnets()["Subnets"][0]
    block = client.associate_vpc_cidr_block(VpcId=subnet["VpcId"], AmazonProvidedIpv6CidrBlock=True)
    cidr = block["Ipv6CidrBlockAssociation"]["Ipv6CidrBlock"].replace("/56", "/64")
    client.associate_subnet_cidr_block(SubnetId=subnet["SubnetId"], Ipv6CidrBlock=cidr)
    group = client.describe_security_groups()["SecurityGroups"][0]["GroupId"]
    return Place(client, images["x86_64"], images["arm64"], subnet["SubnetId"], group)
