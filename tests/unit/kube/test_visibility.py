"""What we may conclude from having heard nothing: ``kube.reflector``."""

from math import inf

from kubewright.kube.reflector import Joint, Visibility


def seeing(*gaps: tuple[float, float], since: float = 0.0) -> Visibility:
    """A watch that began at ``since``, with these gaps."""
    visibility = Visibility()
    visibility.gained(since)
    for begin, end in gaps:
        visibility.lost(begin)
        visibility.gained(end)
    return visibility


def test_before_the_first_list_nothing_is_visible():
    visibility = Visibility()
    visibility.lost(1.0)
    assert visibility.lost_for(10.0) == inf
    assert visibility.visible_for(10.0, 30.0) == 0.0
    assert visibility.since_first_list(10.0) == 0.0


def test_a_watch_that_never_broke_has_no_gap():
    visibility = seeing(since=5.0)
    assert visibility.visible_for(60.0, 30.0) == inf
    assert visibility.since_first_list(60.0) == 55.0
    assert visibility.lost_for(60.0) == 0.0


def test_a_short_gap_counts_only_for_a_shorter_limit():
    visibility = seeing((100.0, 110.0))
    assert visibility.visible_for(200.0, 5.0) == 90.0
    assert visibility.visible_for(200.0, 10.0) == inf


def test_while_it_lasts_a_gap_counts_when_it_is_too_long():
    visibility = seeing()
    visibility.lost(100.0)
    assert visibility.visible_for(110.0, 30.0) == inf
    assert visibility.visible_for(131.0, 30.0) == 0.0
    assert visibility.lost_for(131.0) == 31.0


def test_a_later_short_gap_does_not_hide_a_long_one():
    visibility = seeing((100.0, 200.0), (300.0, 310.0), (400.0, 420.0))
    assert visibility.visible_for(500.0, 50.0) == 300.0
    assert visibility.visible_for(500.0, 15.0) == 80.0


def test_silence_that_was_noticed_late_began_when_it_began():
    visibility = seeing()
    visibility.lost(50.0)
    visibility.lost(150.0)
    assert visibility.lost_for(151.0) == 101.0


def test_flapping_for_ever_takes_no_memory():
    gaps = [(float(begin), begin + 1.0 + 1.0 / (begin + 1)) for begin in range(0, 4000, 4)]
    assert seeing(*gaps).visible_for(4000.0, 0.5) < 4.0


def test_several_watches_see_all_only_while_each_does():
    both = Joint([seeing((100.0, 110.0)), seeing(since=20.0)])
    assert both.visible_for(200.0, 5.0) == 90.0
    assert both.since_first_list(200.0) == 180.0
    assert both.lost_for(200.0) == 0.0
    blind = Joint([seeing(), Visibility()])
    assert (blind.lost_for(200.0), blind.since_first_list(200.0)) == (inf, 0.0)
