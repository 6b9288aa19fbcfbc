"""The warnings about objects that are valid."""

import pytest

from kubewright.apiserver.registry.builtin import builtin_catalog

OBJ = {"metadata": {"name": "a"}, "spec": {"replicas": 1}}


@pytest.mark.parametrize(
    ("group", "plural", "named"),
    [
        ("apps", "daemonsets", "DaemonSets"),
        ("apps", "statefulsets", "StatefulSets"),
        ("batch", "cronjobs", "CronJobs"),
        ("batch", "jobs", "Jobs"),
    ],
)
def test_a_workload_without_a_controller_gets_a_warning_when_its_spec_is_new(
    group: str, plural: str, named: str
) -> None:
    kind = builtin_catalog().find(group, "v1", plural)
    assert kind is not None
    (said,) = kind.warn(OBJ, None)
    assert named in said
    assert kind.warn({**OBJ, "spec": {"replicas": 2}}, OBJ) == [said]
    assert kind.warn({**OBJ, "status": {"replicas": 1}}, OBJ) == []


def test_other_kinds_get_no_warning() -> None:
    kind = builtin_catalog().find("", "v1", "configmaps")
    assert kind is not None
    assert kind.warn(OBJ, None) == []
