"""A class as Gardener writes one, for tests."""

from typing import Any

TAGS = {"kubernetes.io/cluster/shoot--dev--blue": "1", "kubernetes.io/role/node": "1"}
INTERFACE = {"subnetID": "subnet-1", "securityGroupIDs": ["sg-1"]}
SMALL: dict[str, Any] = {
    "ami": "ami-0123456789abcdef0",
    "machineType": "m5.large",
    "region": "eu-west-1",
    "iam": {"name": "nodes"},
    "networkInterfaces": [INTERFACE],
    "tags": TAGS,
}
WHOLE: dict[str, Any] = {
    "apiVersion": "mcm.gardener.cloud/v1alpha1",
    "ami": "ami-0123456789abcdef0",
    "blockDevices": [
        {
            "deviceName": "/root",
            "ebs": {
                "deleteOnTermination": True,
                "encrypted": True,
                "iops": 4000,
                "kmsKeyID": "alias/disks",
                "throughput": 200,
                "volumeSize": 50,
                "volumeType": "gp3",
            },
        },
        {"deviceName": "/dev/sdf", "ebs": {"snapshotID": "snap-1", "volumeType": "io2", "iops": 100}},
        {"deviceName": "/dev/sdg", "virtualName": "ephemeral0"},
        {"deviceName": "/dev/sdh", "noDevice": "true"},
    ],
    "capacityReservation": {"capacityReservationId": "cr-1"},
    "cpuOptions": {"coreCount": 2, "threadsPerCore": 1, "amdSevSnp": "enabled"},
    "ebsOptimized": True,
    "iam": {"arn": "arn:aws:iam::123456789012:instance-profile/nodes"},
    "instanceMetadataOptions": {
        "httpEndpoint": "enabled",
        "httpPutResponseHopLimit": 2,
        "httpTokens": "optional",
        "httpProtocolIpv6": "disabled",
    },
    "keyName": "admin",
    "machineType": "m6a.xlarge",
    "monitoring": True,
    "networkInterfaces": [
        {
            **INTERFACE,
            "associatePublicIPAddress": True,
            "deleteOnTermination": True,
            "description": "eth0",
            "ipv6AddressCount": 1,
            "ipv6PrefixCount": 1,
            "interfaceType": "interface",
            "networkCardIndex": 0,
            "deviceIndex": 0,
            "primaryIpv6": True,
        }
    ],
    "placement": {
        "affinity": "host",
        "availabilityZone": "eu-west-1a",
        "tenancy": "host",
        "groupId": "pg-1",
        "hostId": "h-1",
        "partitionNumber": 1,
    },
    "region": "eu-west-1",
    "spotPrice": "0.12",
    "srcAndDstChecksEnabled": False,
    "tags": {**TAGS, "Name": "not-this", "team": "blue"},
}
