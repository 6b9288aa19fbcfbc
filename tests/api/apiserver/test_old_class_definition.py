"""The definition of AWSMachineClass in ``deploy/migration``: the seed's manifest and the seed's columns."""

from pathlib import Path

import yaml

from kubewright.apiserver.server import ApiServer
from kubewright.kube.transport import InProcess
from kubewright.providers.aws.spec import OLD_KIND
from kubewright.testing.api import Api
from kubewright.testing.clocks import LoopClock

FOLDER = Path(__file__).parents[3] / "deploy" / "migration"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
SEED = """
apiVersion: machine.sapcloud.io/v1alpha1
kind: AWSMachineClass
metadata:
  name: test-aws
  namespace: default
spec:
  ami: ami-38cd975d
  region: eu-east-1
  machineType: t2.large
  secretRef: {name: test-secret, namespace: default}
"""


async def test_a_manifest_of_the_seed_is_stored_and_listed_with_the_columns_of_the_seed() -> None:
    clock = LoopClock()
    server = ApiServer(clock)
    await server.start()
    api = Api(InProcess(server.handle), clock, "embedded")
    crd = yaml.safe_load((FOLDER / "definition" / "awsmachineclasses.machine.sapcloud.io.yaml").read_text())
    (await api.post(CRDS, crd)).ok()
    (await api.post(OLD_KIND.path("default"), yaml.safe_load(SEED))).ok()
    table = (await api.get(OLD_KIND.path("default"), accept=TABLE)).ok()
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Machine Type", "AMI", "Age"]
    assert table["rows"][0]["cells"][:3] == ["test-aws", "t2.large", "ami-38cd975d"]
    await server.close()


def test_the_role_names_the_class_that_the_driver_migrates_and_what_refers_to_it() -> None:
    role, binding = yaml.safe_load_all((FOLDER / "rbac.yaml").read_text())
    rights = {(name, verb) for rule in role["rules"] for name in rule["resources"] for verb in rule["verbs"]}
    assert {(OLD_KIND.plural, "get"), (OLD_KIND.plural, "patch"), ("machineclasses", "create")} <= rights
    assert {
        ("machinedeployments", "get"),
        ("machinedeployments", "patch"),
        ("machinesets", "patch"),
    } <= rights
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
