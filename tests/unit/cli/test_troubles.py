"""What ``kubewright status -n NAMESPACE`` shows: which objects are in trouble, and how it reads."""

from datetime import UTC, datetime, timedelta

import pytest

from kubewright.api.core import Event, ObjectReference
from kubewright.api.meta import ObjectMeta
from kubewright.cli.explain.story import Story
from kubewright.cli.troubles import command
from kubewright.cli.troubles.decide import Trouble, Troubles, Warned, troubles, waits, warnings
from kubewright.runtime.records import Pass, Waited

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)
MACHINE, SET = "machine.machine.sapcloud.io", "machineset.machine.sapcloud.io"


def ago(**since):
    return NOW - timedelta(**since)


def story(name, *waits_for, kind=MACHINE, state="Unknown", minutes=1):
    return Story(
        kind=kind, namespace="ns", name=name, state=state, since=ago(minutes=minutes), waits_for=waits_for
    )


@pytest.mark.parametrize(
    ("stories", "found"),
    [
        pytest.param(
            [story("a"), story("b", kind=SET)], [], id="objects that wait for nothing are in no trouble"
        ),
        pytest.param(
            [story("a", "node a is silent"), story("b", "node b is silent", minutes=9)],
            [(("a", "b"), "Unknown", ago(minutes=9), ("node NAME is silent",))],
            id="objects that wait for the same are one trouble, as old as the first of them",
        ),
        pytest.param(
            [
                story("a", 'the pod "default/web-1" is held; next try in 9m57.008201s'),
                story("b", 'the pod "default/web-2" is held; next try in 1h3m0s'),
            ],
            [
                (
                    ("a", "b"),
                    "Unknown",
                    ago(minutes=1),
                    ('the pod "default/web-1" is held; next try in 9m57.008201s',),
                )
            ],
            id="other pods and times are the same wait, and the first one is shown",
        ),
        pytest.param(
            [story("s", "3 of 3 ready, 6 there", state="3 of 3 ready, 6 there", kind=SET)],
            [(("s",), "3 of 3 ready, 6 there", ago(minutes=1), ())],
            id="a wait that is the state is not told twice",
        ),
        pytest.param(
            [story("a", "node a is silent")],
            [(("a",), "Unknown", ago(minutes=1), ("node a is silent",))],
            id="one object keeps its name",
        ),
        pytest.param(
            [story("a", "x"), story("b", "x", state="Failed")],
            [(("a",), "Unknown", ago(minutes=1), ("x",)), (("b",), "Failed", ago(minutes=1), ("x",))],
            id="another state is another trouble",
        ),
        pytest.param(
            [story("s", "1 of 2 ready", kind="cluster.cluster.x-k8s.io"), story("a", "x")],
            [
                (("a",), "Unknown", ago(minutes=1), ("x",)),
                (("s",), "Unknown", ago(minutes=1), ("1 of 2 ready",)),
            ],
            id="machines come first",
        ),
    ],
)
def test_which_objects_are_in_trouble(stories, found):
    assert [(each.names, each.state, each.since, each.waits_for) for each in troubles(stories)] == found


def event(name, *, kind="Machine", type="Warning", minutes=1):
    return Event(
        metadata=ObjectMeta(name="e"),
        involved_object=ObjectReference(kind=kind, namespace="ns", name=name),
        reason="Failed",
        message="no",
        last_timestamp=ago(minutes=minutes),
        type=type,
    )


@pytest.mark.parametrize(
    ("events", "told"),
    [
        pytest.param(
            [event("other")], ["machine/other"], id="a warning about an object that is in no trouble"
        ),
        pytest.param([event("a")], [], id="of an object in trouble the trouble tells"),
        pytest.param([event("other", type="Normal")], [], id="what is no warning"),
        pytest.param([event("other", minutes=61)], [], id="an old one"),
        pytest.param(
            [event("x", minutes=1), event("y", kind="Pod", minutes=5)],
            ["pod/y", "machine/x"],
            id="oldest first",
        ),
        pytest.param(
            [event(f"m{n}") for n in range(12)], [f"machine/m{n}" for n in range(2, 12)], id="the last ten"
        ),
    ],
)
def test_which_warnings_are_told(events, told):
    known = [Trouble(kind=MACHINE, namespace="ns", names=("a",))]
    assert [each.about for each in warnings(events, known, NOW)] == told


def record(name, *waits, controller="machine", namespace="ns"):
    return Pass(controller=controller, namespace=namespace, name=name, at=NOW, since=NOW, waits=waits)


def waited(what, remedy="make it", **since):
    return Waited(what=what, remedy=remedy, since=ago(**since))


@pytest.mark.parametrize(
    ("passes", "told"),
    [
        pytest.param([record("a")], [], id="a pass that waits for nothing"),
        pytest.param([record("a", waited("a VM", seconds=29))], [], id="a wait that has just begun"),
        pytest.param(
            [record("a", waited("Secret keys", minutes=2)), record("b", waited("Secret keys", minutes=9))],
            ["machine b: Secret keys", "machine a: Secret keys"],
            id="the longest comes first",
        ),
        pytest.param(
            [
                record("a", waited("a VM", minutes=1)),
                record("a", waited("a VM", minutes=1), controller="rolloutnodes"),
            ],
            ["machine a: a VM"],
            id="what two controllers say of one object is said once",
        ),
        pytest.param(
            [record(f"m{n:02}", waited("a VM", minutes=n + 1)) for n in range(15)],
            [f"machine m{n:02}: a VM" for n in range(14, 4, -1)],
            id="ten are shown",
        ),
    ],
)
def test_which_waits_are_told(passes, told):
    assert [f"{each.about}: {each.what}" for each in waits(passes, NOW)] == told


def test_waits_as_text():
    found = Troubles(waits=tuple(waits([record("a", waited("Secret keys", minutes=2))], NOW)), looked_at=1)
    assert [each.text for each in command.lines(found, NOW)][1:] == [
        "the longest waits of the controllers",
        "  2m      ns: machine a waits for Secret keys",
        "          make it",
    ]


def test_nothing_is_wrong_as_text():
    (line,) = command.lines(Troubles(namespace="ns", looked_at=4), NOW)
    assert line.text == "namespace ns: all is well; 4 objects were looked at"


def test_what_could_not_be_read_is_not_called_well():
    found = Troubles(namespace="ns", notes=("machines is forbidden",))
    assert [each.text for each in command.lines(found, NOW)] == [
        "namespace ns: no trouble was found, but not everything could be read",
        "note: machines is forbidden",
    ]


def test_troubles_as_text():
    many = tuple(f"m{number}" for number in range(5))
    found = Troubles(
        looked_at=9,
        troubles=(
            Trouble(
                kind=MACHINE,
                namespace="ns",
                names=many,
                state="Unknown",
                since=ago(minutes=3),
                waits_for=("x",),
            ),
            Trouble(kind=SET, namespace="ns", names=("s",), waits_for=("1 of 2 ready",)),
        ),
        warnings=(Warned(about="pod/p", reason="Failed", message="no", at=ago(minutes=2), count=3),),
    )
    assert [each.text for each in command.lines(found, NOW)] == [
        "all namespaces: 6 of 9 objects wait for something",
        "  ns: 5 machine.machine.sapcloud.io m0, m1, m2 and 2 more: Unknown for 3m",
        "      x",
        "  ns: machineset.machine.sapcloud.io s: not ready",
        "      1 of 2 ready",
        "warnings of the last hour about other objects",
        "  2m ago    pod/p Failed: no (3 times)",
    ]


def test_more_troubles_than_a_screen_has_lines_are_counted():
    found = Troubles(namespace="ns", troubles=tuple(Trouble(kind=SET, names=(f"s{n}",)) for n in range(33)))
    assert [each.text for each in command.lines(found, NOW)][-1] == "  and 3 more; -o json has all"
