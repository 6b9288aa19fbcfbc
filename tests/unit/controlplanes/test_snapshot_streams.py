"""By which of its members an etcd is copied."""

import pytest

from kubewright.controlplanes.etcd import rank


def says(member, leader="0", term=3, applied=100, **more):
    return {
        "header": {"member_id": member},
        "leader": leader,
        "raftTerm": str(term),
        "raftAppliedIndex": str(applied),
        **more,
    }


@pytest.mark.parametrize(
    ("answers", "order"),
    [
        ([says("1", "3", applied=500), says("2", "3", applied=500), says("3", "3", applied=400)], "312"),
        ([says("1", "2", applied=90), says("2", "2", applied=100), says("3", applied=40)], "213"),
        ([says("1", applied=9), says("2", applied=10), says("3", applied=8)], "213"),
        ([says("1", "1", term=3, applied=500), says("2", "2", term=4, applied=400)], "21"),
        ([says("1", applied=500, isLearner=True), says("2", applied=10)], "21"),
        ([{"header": {"member_id": "1"}}, says("2", applied=1)], "21"),
    ],
    ids=[
        "the leader first, whatever it has applied",
        "then the one that has applied most",
        "without a leader, the one that has applied most",
        "of two that lead, the one of the later term",
        "a learner last",
        "one that says nothing after one that has applied something",
    ],
)
def test_in_which_order_members_are_asked_for_their_data(answers, order):
    assert "".join(each["header"]["member_id"] for each in sorted(answers, key=rank)) == order
