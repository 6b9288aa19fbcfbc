"""What sets and deployments of Cluster API decide, as tables over values."""

from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from kubewright.api.cluster.v1beta1 import (
    Bootstrap,
    Cluster,
    ClusterSpec,
    Condition,
    Machine,
    MachineDeployment,
    MachineDeploymentSpec,
    MachineSet,
    MachineSetSpec,
    MachineSpec,
    MachineStatus,
    MachineTemplateSpec,
    ObjectReference,
)
from kubewright.api.meta import ObjectMeta
from kubewright.clusters import owned
from kubewright.clusters.external.object import External
from kubewright.clusters.machinedeployment import identity, name_and_hash, outdated
from kubewright.clusters.machineset.around import Around, failed_checks, obstacle, replacement_obstacle
from kubewright.clusters.machineset.member import (
    MachineMember,
    marker,
    priority,
    propagated_patch,
    ranking,
    read,
    same_but_for_summary,
)
from kubewright.kube.header import Header
from kubewright.wire.gvk import Key

NOW = 10_000_000.0
DAY = 86_400.0


def member(name="m", **facts):
    return MachineMember(
        **{
            "key": Key("ns", name),
            "uid": name,
            "owner_uid": "set",
            "labels": {},
            "deleting": False,
            "created": NOW - DAY,
            "healthy": True,
            **facts,
        }
    )


PRIORITIES = {
    "one that is being deleted": (member(deleting=True, marked=True), "Random", 100.0),
    "one that is marked, whatever the policy": (member(marked=True, healthy=False), "Newest", 80.0),
    "one that is unhealthy": (member(healthy=False), "Oldest", 50.0),
    "any other, at random": (member(), "Random", 20.0),
    "a young one, the oldest first": (member(), "Oldest", 4.758),
    "a young one, the newest first": (member(), "Newest", 45.242),
    "one of no known age": (member(created=0.0), "Newest", 0.0),
    "one from the future": (member(created=NOW + 5), "Oldest", 0.0),
}


@pytest.mark.parametrize(("found", "policy", "wanted"), PRIORITIES.values(), ids=PRIORITIES)
def test_priority_of_deletion(found, policy, wanted):
    assert priority(found, policy, NOW) == pytest.approx(wanted, abs=1e-3)


def test_of_equals_the_first_by_name_goes_first():
    several = [member("c"), member("a", marked=True), member("b"), member("d", healthy=False)]
    order = ranking(MachineSet(spec=MachineSetSpec(delete_policy="Random")), NOW)
    assert [each.name for each in sorted(several, key=order)] == ["a", "d", "b", "c"]


AT = datetime(2030, 1, 1, tzinfo=UTC)
NODE = ObjectReference(name="n")


def condition(kind, status):
    return Condition(type=kind, status=status, last_transition_time=AT)


MEMBERS = {
    "without a node": ({}, (False, False, False)),
    "with a node of which nothing is known": ({"node_ref": NODE}, (True, False, False)),
    "with a healthy node": (
        {"node_ref": NODE, "conditions": (condition("NodeHealthy", "True"),)}, (True, True, False),
    ),
    "with a node that is not known to be healthy": (
        {"node_ref": NODE, "conditions": (condition("NodeHealthy", "Unknown"),)}, (False, False, False),
    ),
    "failed": ({"node_ref": NODE, "failure_message": "no"}, (False, False, False)),
    "to be replaced": (
        {"conditions": (condition("OwnerRemediated", "False"),)}, (False, False, True),
    ),
    "replaced": ({"conditions": (condition("OwnerRemediated", "True"),)}, (False, False, False)),
}  # fmt: skip


@pytest.mark.parametrize(("status", "wanted"), MEMBERS.values(), ids=MEMBERS)
def test_a_machine_as_its_set_sees_it(status, wanted):
    data = b'{"metadata":{"name":"m"}}'
    header = Header(Key("ns", "m"), "u", 1, 1, "", deleting=False, data=data)
    found = read(header, Machine(metadata=ObjectMeta(name="m"), status=MachineStatus(**status)))
    assert (found.healthy, found.ready, found.remediate) == wanted


CONFIG = ObjectReference(
    api_version="bootstrap.cluster.x-k8s.io/v1beta1", kind="KubeadmConfigTemplate", name="t"
)
OTHER = replace(CONFIG, api_version="boot.example.com/v1", kind="FooConfigTemplate")
INFRA = ObjectReference(api_version="infra.example.com/v1", kind="FooMachineTemplate", name="t")


def machine_set(version=None, config=CONFIG, **meta):
    spec = MachineSpec(version=version, bootstrap=Bootstrap(config_ref=config), infrastructure_ref=INFRA)
    return MachineSet(
        metadata=ObjectMeta(name="pool", namespace="ns", **meta),
        spec=MachineSetSpec(cluster_name="demo", template=MachineTemplateSpec(spec=spec)),
    )


def plane(wanted="v1.30.0", has="v1.30.0"):
    ref = ObjectReference(api_version="plane.example.com/v1", kind="FooPlane", name="p")
    return External(ref, {"spec": {"version": wanted}, "status": {"version": has}})


SKIP = "machineset.cluster.x-k8s.io/skip-preflight-checks"
CHECKS = {
    "no control plane": (machine_set("v1.30.0"), None, []),
    "a control plane without versions": (machine_set("v1.30.0"), plane("", ""), []),
    "the same version": (machine_set("v1.30.4"), plane(), []),
    "no version of machines": (machine_set(), plane(), []),
    "a control plane that is being made": (machine_set(), plane(has=""), ["ControlPlaneIsStable"]),
    "a control plane that is being upgraded": (machine_set(), plane("v1.31.0"), ["ControlPlaneIsStable"]),
    "a version that cannot be read": (machine_set(), plane("latest"), ["the version of"]),
    "newer machines": (machine_set("v1.31.0", OTHER), plane(), ["KubernetesVersionSkew"]),
    "newer machines, by kubeadm": (
        machine_set("v1.31.0"), plane(), ["KubernetesVersionSkew", "KubeadmVersionSkew"],
    ),
    "machines three minor versions older": (machine_set("v1.27.0", OTHER), plane(), []),
    "machines four minor versions older": (machine_set("v1.26.0", OTHER), plane(), ["KubernetesVersionSkew"]),
    "three older than an old control plane": (
        machine_set("v1.24.0", OTHER), plane("v1.27.0", "v1.27.0"), ["KubernetesVersionSkew"],
    ),
    "two older than an old control plane": (machine_set("v1.25.0", OTHER), plane("v1.27.0", "v1.27.0"), []),
    "another minor version, by kubeadm": (machine_set("v1.29.0"), plane(), ["KubeadmVersionSkew"]),
    "one check skipped": (machine_set("v1.29.0", annotations={SKIP: "KubeadmVersionSkew"}), plane(), []),
    "all skipped": (machine_set("v1.9.0", annotations={SKIP: "All"}), plane("v1.31.0"), []),
    "another one skipped": (
        machine_set("v1.29.0", annotations={SKIP: "KubernetesVersionSkew"}), plane(), ["KubeadmVersionSkew"],
    ),
    "a control plane that is missing": (
        machine_set(), External(INFRA, problem="there is none"), ["waiting for the control plane: there is none"],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("found", "control_plane", "wanted"), CHECKS.values(), ids=CHECKS)
def test_preflight_checks(found, control_plane, wanted):
    said = failed_checks(found, control_plane)
    assert len(said) == len(wanted)
    assert all(text.startswith(start) for text, start in zip(said, wanted, strict=True))


DEMO = Cluster(metadata=ObjectMeta(name="demo", uid="u"))
GOING = replace(DEMO, metadata=replace(DEMO.metadata, deletion_timestamp=AT))
GOOD = External(INFRA, {"spec": {"template": {"spec": {}}}})
AROUND = Around(DEMO, None, GOOD, GOOD)
OBSTACLES = {
    "none": (AROUND, {}, None),
    "no bootstrap to clone": (Around(DEMO, None, None, GOOD), {}, None),
    "no cluster": (Around(None, None, GOOD, GOOD), {}, "MachineCreationFailed"),
    "a cluster that goes": (Around(GOING, None, GOOD, GOOD), {}, ""),
    "its deployment forbids it": (AROUND, {"cluster.x-k8s.io/disable-machine-create": "true"}, ""),
    "no template of hosts": (
        Around(DEMO, None, GOOD, External(INFRA, problem="x")), {}, "InfrastructureTemplateCloningFailed",
    ),
    "no template of bootstrap data": (
        Around(DEMO, None, External(CONFIG, problem="x"), GOOD), {}, "BootstrapTemplateCloningFailed",
    ),
    "a template that is not one": (
        Around(DEMO, None, GOOD, External(INFRA, {"spec": {}})), {}, "InfrastructureTemplateCloningFailed",
    ),
    "caches that fill": (Around(DEMO, None, External(CONFIG, problem="x", transient=True), GOOD), {}, ""),
    "a control plane that is not there yet": (Around(DEMO, plane(has=""), GOOD, GOOD), {}, "PreflightCheckFailed"),
}  # fmt: skip


@pytest.mark.parametrize(("around", "annotations", "wanted"), OBSTACLES.values(), ids=OBSTACLES)
def test_what_keeps_a_set_from_making_machines(around, annotations, wanted):
    found = obstacle(machine_set(annotations=annotations), around)
    assert (found and found.reason) == wanted


def test_an_old_set_of_a_deployment_that_replaces_on_deletion_lets_its_machines_be_replaced():
    old = machine_set(annotations={"cluster.x-k8s.io/disable-machine-create": "true"})
    assert obstacle(old, AROUND) is not None
    assert replacement_obstacle(old, AROUND) is None


def test_what_a_user_has_put_onto_a_machine_stays():
    labelled = replace(machine_set(), spec=replace(
        machine_set().spec, template=MachineTemplateSpec(metadata=ObjectMeta(labels={"a": "1"}))
    ))  # fmt: skip
    note = {"kubewright.dev/propagated": marker(labelled)}
    machine = Machine(metadata=ObjectMeta(labels={"own": "1", "a": "1"}, annotations=note))
    bare = propagated_patch(machine_set(), machine)["metadata"]
    assert bare["labels"] == {
        "a": None, "cluster.x-k8s.io/cluster-name": "demo", "cluster.x-k8s.io/set-name": "pool",
    }  # fmt: skip
    unmarked = propagated_patch(machine_set(), replace(machine, metadata=ObjectMeta(labels={"a": "1"})))
    assert "a" not in unmarked["metadata"]["labels"]


TEMPLATE = machine_set("v1.30.0").spec.template
SPEC = TEMPLATE.spec
TEMPLATES = {
    "another version of Kubernetes": (replace(SPEC, version="v1.31.0"), True),
    "another failure domain": (replace(SPEC, failure_domain="b"), True),
    "another template of hosts": (replace(SPEC, infrastructure_ref=replace(INFRA, name="u")), True),
    "another kind of hosts": (replace(SPEC, infrastructure_ref=replace(INFRA, kind="BarMachineTemplate")), True),
    "another bootstrap": (replace(SPEC, bootstrap=Bootstrap(data_secret_name="s")), True),
    "another version of the reference": (
        replace(SPEC, infrastructure_ref=replace(INFRA, api_version="infra.example.com/v2", namespace="ns")), False,
    ),
    "other timeouts": (replace(SPEC, node_drain_timeout="1s", node_deletion_timeout="1s"), False),
}  # fmt: skip


@pytest.mark.parametrize(("spec", "differs"), TEMPLATES.values(), ids=TEMPLATES)
def test_what_is_rolled_out(spec, differs):
    assert (identity(replace(TEMPLATE, spec=spec)) != identity(TEMPLATE)) == differs
    labelled = replace(TEMPLATE, metadata=ObjectMeta(labels={"a": "b"}, annotations={"c": "d"}))
    assert identity(labelled) == identity(TEMPLATE)


def deployment(after=None, **meta):
    spec = MachineDeploymentSpec(cluster_name="demo", template=TEMPLATE, rollout_after=after)
    return MachineDeployment(metadata=ObjectMeta(name="pool", **meta), spec=spec)


def test_a_set_has_another_name_after_a_collision_or_a_rollout_that_was_asked_for():
    found = {
        name_and_hash(deployment()),
        name_and_hash(deployment(AT)),
        name_and_hash(deployment(annotations={"kubewright.dev/collisions": "1"})),
    }
    assert len(found) == 3
    for name, hashed in found:
        assert name == f"pool-{hashed.rpartition('-')[2]}"


EARLY, LATE = datetime(2029, 1, 1, tzinfo=UTC), datetime(2031, 1, 1, tzinfo=UTC)
AGES = {
    "no time is given": (None, EARLY, False),
    "the time has not come": (LATE, EARLY, False),
    "a set from before it": (AT, EARLY, True),
    "a set from after it": (EARLY, AT, False),
}


@pytest.mark.parametrize(("after", "created", "wanted"), AGES.values(), ids=AGES)
def test_when_a_set_is_outdated(after, created, wanted):
    found = MachineSet(metadata=ObjectMeta(creation_timestamp=created))
    assert outdated(deployment(after), found, AT) == wanted


IDLE = {
    "a paused object": (ObjectMeta(annotations={"cluster.x-k8s.io/paused": ""}), DEMO, True),
    "a paused cluster": (ObjectMeta(), replace(DEMO, spec=ClusterSpec(paused=True)), True),
    "no cluster": (ObjectMeta(), None, False),
    "a living one": (ObjectMeta(), DEMO, False),
}


@pytest.mark.parametrize(("meta", "cluster", "wanted"), IDLE.values(), ids=IDLE)
def test_what_is_paused(meta, cluster, wanted):
    assert bool(owned.paused_because(MachineSet(metadata=meta), cluster)) == wanted


def test_a_cluster_of_another_uid_is_the_owner_again_after_a_move():
    before = owned.with_cluster_ownership(ObjectMeta(), DEMO, "demo", owned=True)
    moved = replace(DEMO, metadata=replace(DEMO.metadata, uid="other"))
    after = owned.with_cluster_ownership(before, moved, "demo", owned=True)
    assert [each.uid for each in after.owner_references] == ["other"]
    assert owned.metadata_patch(after, after) == {}


@pytest.mark.parametrize(
    ("facts", "same"),
    [
        pytest.param({"summary": Condition(type="Ready", status="False")}, True, id="what it says of itself"),
        pytest.param({"healthy": False}, False, id="its health"),
        pytest.param({"deleting": True}, False, id="its deletion"),
        pytest.param({"version": "2"}, True, id="its version alone"),
    ],
)
def test_a_deployment_looks_again_when_of_a_machine_changes(facts: dict, same: bool) -> None:
    assert same_but_for_summary(member(), member(**facts)) == same
