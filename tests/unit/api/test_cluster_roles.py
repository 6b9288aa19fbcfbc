"""What the roles of the core and of the providers grant in a management cluster, and what not."""

import pytest

from kubewright.api.bootstrap import manifests as bootstrap
from kubewright.api.cluster import manifests as core
from kubewright.api.controlplane import manifests as controlplane
from kubewright.api.infra import manifests as infrastructure
from kubewright.testing.permissions import Permission, granted

CORE, BOOTSTRAP = granted(core.manifest()), granted(bootstrap.manifest())
INFRASTRUCTURE = granted(infrastructure.manifest())
NESTED = granted(controlplane.manifest())
INFRA, BOOT = "infrastructure.cluster.x-k8s.io", "bootstrap.cluster.x-k8s.io"
PLANE, GROUP = "controlplane.cluster.x-k8s.io", "cluster.x-k8s.io"
GRANTS = [
    *[
        (
            f"the core may {verb} a kind of bootstrap that it does not know",
            CORE,
            BOOT,
            "fooconfigs",
            verb,
            True,
        )
        for verb in ("get", "list", "watch", "create", "patch", "delete")
    ],
    ("so it may with infrastructure", CORE, INFRA, "foomachines", "patch", True),
    ("so it may with control planes", CORE, PLANE, "fooplanes", "patch", True),
    ("it reads drain rules", CORE, GROUP, "machinedrainrules", "list", True),
    ("and writes none", CORE, GROUP, "machinedrainrules", "patch", False),
    ("a group of another name is not the core's", CORE, "example.com", "foomachines", "get", False),
    ("the bootstrap provider writes its own kind", BOOTSTRAP, BOOT, "kubeadmconfigs", "patch", True),
    ("it says whether the data is there", BOOTSTRAP, BOOT, "kubeadmconfigs/status", "patch", True),
    ("it makes Secrets", BOOTSTRAP, "", "secrets", "create", True),
    ("it reads Clusters", BOOTSTRAP, GROUP, "clusters", "get", True),
    ("it writes no Cluster", BOOTSTRAP, GROUP, "clusters", "patch", False),
    ("nor its status", BOOTSTRAP, GROUP, "clusters/status", "patch", False),
    ("it writes no Machine", BOOTSTRAP, GROUP, "machines", "patch", False),
    ("infrastructure writes its own machines", INFRASTRUCTURE, INFRA, "kubewrightmachines", "patch", True),
    ("it reads the data of machines", INFRASTRUCTURE, "", "secrets", "get", True),
    ("it puts its finalizer onto Secrets with credentials", INFRASTRUCTURE, "", "secrets", "patch", True),
    ("it makes no Secret", INFRASTRUCTURE, "", "secrets", "create", False),
    ("it deletes no Secret", INFRASTRUCTURE, "", "secrets", "delete", False),
    ("it writes no Cluster", INFRASTRUCTURE, GROUP, "clusters", "patch", False),
    ("nor the status of one", INFRASTRUCTURE, GROUP, "clusters/status", "patch", False),
    ("nor a Machine", INFRASTRUCTURE, GROUP, "machines", "patch", False),
    ("it makes none of its own objects", INFRASTRUCTURE, INFRA, "kubewrightmachines", "create", False),
    ("control planes take over their components", NESTED, PLANE, "nestedetcds", "patch", True),
    ("they delete them in order", NESTED, PLANE, "nestedapiservers", "delete", True),
    ("they make them from a template", NESTED, PLANE, "nestedetcds", "create", True),
    ("they make no control plane", NESTED, PLANE, "nestedcontrolplanes", "create", False),
    ("they delete no control plane", NESTED, PLANE, "nestedcontrolplanes", "delete", False),
    ("nor any other kind of the group", NESTED, PLANE, "fooplanes", "get", False),
    ("they make certificates", NESTED, "", "secrets", "create", True),
    ("they delete none: the Secrets have owners", NESTED, "", "secrets", "delete", False),
    ("they write no Cluster", NESTED, GROUP, "clusters", "patch", False),
    ("the bootstrap provider has nothing in infrastructure", BOOTSTRAP, INFRA, "foomachines", "get", False),
]


@pytest.mark.parametrize(
    ("grants", "group", "resource", "verb", "allowed"),
    [row[1:] for row in GRANTS],
    ids=[r[0] for r in GRANTS],
)
def test_a_role_grants(grants, group, resource, verb, allowed):
    need = Permission(group, resource, verb)
    assert any(each.covers(need) for each in grants) is allowed


def test_a_provider_of_another_group_adds_its_rules_by_a_label():
    (gathering,) = [each for each in core.manifest() if "aggregationRule" in each]
    label = {"cluster.x-k8s.io/aggregate-to-manager": "true"}
    assert gathering["aggregationRule"] == {"clusterRoleSelectors": [{"matchLabels": label}]}
