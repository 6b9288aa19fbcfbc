"""One EC2 for all tests of a process: moto. It has its own server, too, for those who look at what is really there."""

import logging
from collections.abc import Iterator

import boto3
import pytest
from moto.server import ThreadedMotoServer

from .ec2 import ADMINISTRATOR, REGION, Place


@pytest.fixture(scope="session")
def place() -> Iterator[Place]:
    logging.getLogger("werkzeug").setLevel(logging.CRITICAL)  # it logs each request, and moto's own faults
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    url = f"http://{host}:{port}"
    client, iam = (
        boto3.client(
            service,
            region_name=REGION,
            endpoint_url=url,
            aws_access_key_id=ADMINISTRATOR,
            aws_secret_access_key="unused",
        )
        for service in ("ec2", "iam")
    )
    iam.create_instance_profile(InstanceProfileName="nodes")
    iam.close()
    images = {each["Architecture"]: each["ImageId"] for each in client.describe_images()["Images"]}
    subnet = client.describe_subnets()["Subnets"][0]
    block = client.associate_vpc_cidr_block(VpcId=subnet["VpcId"], AmazonProvidedIpv6CidrBlock=True)
    cidr = block["Ipv6CidrBlockAssociation"]["Ipv6CidrBlock"].replace("/56", "/64")
    client.associate_subnet_cidr_block(SubnetId=subnet["SubnetId"], Ipv6CidrBlock=cidr)
    group = client.describe_security_groups()["SecurityGroups"][0]["GroupId"]
    yield Place(client, images["x86_64"], images["arm64"], subnet["SubnetId"], group)
    client.close()
    server.stop()
