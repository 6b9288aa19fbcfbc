"""What we may conclude from having heard nothing: ``kube.sight``."""

from math import inf

from kubewright.kube.sight import Sight


def seeing(*gaps: tuple[float, float], since: float = 0.0) -> Sight:
    """One that sees from ``since`` on, but for these gaps."""
    sight = Sight()
    sight.sees(since)
    for begin, end in gaps:
        sight.lost(begin)
        sight.sees(end)
    return sight


def test_before_the_first_look_we_are_blind():
    sight = Sight()
    sight.lost(1.0)
    assert sight.blind(10.0) == inf
    assert sight.watched(10.0, 30.0) == 0.0
    assert sight.awake(10.0) == 0.0


def test_who_never_lost_sight_knows_of_no_gap():
    sight = seeing(since=5.0)
    assert sight.watched(60.0, 30.0) == inf
    assert sight.awake(60.0) == 55.0
    assert sight.blind(60.0) == 0.0


def test_a_short_gap_matters_to_those_only_who_cannot_bear_it():
    sight = seeing((100.0, 110.0))
    assert sight.watched(200.0, 5.0) == 90.0
    assert sight.watched(200.0, 10.0) == inf


def test_while_it_lasts_a_gap_counts_when_it_is_too_long():
    sight = seeing()
    sight.lost(100.0)
    assert sight.watched(110.0, 30.0) == inf
    assert sight.watched(131.0, 30.0) == 0.0
    assert sight.blind(131.0) == 31.0


def test_a_later_short_gap_does_not_hide_a_long_one():
    sight = seeing((100.0, 200.0), (300.0, 310.0), (400.0, 420.0))
    assert sight.watched(500.0, 50.0) == 300.0
    assert sight.watched(500.0, 15.0) == 80.0


def test_silence_that_was_noticed_late_began_when_it_began():
    sight = seeing()
    sight.lost(50.0)
    sight.lost(150.0)
    assert sight.blind(151.0) == 101.0


def test_flapping_for_ever_takes_no_memory():
    gaps = [(float(begin), begin + 1.0 + 1.0 / (begin + 1)) for begin in range(0, 4000, 4)]
    assert seeing(*gaps).watched(4000.0, 0.5) < 4.0
