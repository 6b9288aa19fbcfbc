"""What ``kubewright explain`` tells of an object: from its status, the manager's records and events."""

from datetime import UTC, datetime, timedelta

import pytest

from kubewright.api.core import Event
from kubewright.api.machine.names import FINALIZER as MACHINE_FINALIZER
from kubewright.api.meta import ObjectMeta
from kubewright.base.errors import InvalidInput
from kubewright.cli.explain import story as page
from kubewright.cli.explain.command import print_lines, subjects
from kubewright.cli.explain.story import Decision, Expected, Facts, Happened, Story, tell
from kubewright.cli.explain.subjects import named
from kubewright.runtime.records import Acted, Pass, Waited

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)


def ago(**since):
    return NOW - timedelta(**since)


@pytest.mark.parametrize(
    ("text", "name", "kinds"),
    [
        pytest.param(
            "machine",
            "a",
            ["machine.machine.sapcloud.io", "machine.cluster.x-k8s.io"],
            id="two APIs have a machine",
        ),
        pytest.param("machine.cluster.x-k8s.io", "a", ["machine.cluster.x-k8s.io"], id="a group says which"),
        pytest.param(
            "machines.machine.sapcloud.io", "a", ["machine.machine.sapcloud.io"], id="a plural, too"
        ),
        pytest.param(
            "MCD/a", "", ["machinedeployment.machine.sapcloud.io"], id="a short name, with the name"
        ),
        pytest.param("node", "a", ["node"], id="a kind of Kubernetes"),
        pytest.param(
            "nestedcontrolplane",
            "a",
            ["nestedcontrolplane.controlplane.cluster.x-k8s.io"],
            id="a control plane",
        ),
    ],
)
def test_a_user_names_kind_and_name(text, name, kinds):
    found, called = named(subjects(), text, name)
    assert ([each.word for each in found], called) == (kinds, "a")


@pytest.mark.parametrize(
    ("text", "name", "said"),
    [
        pytest.param(
            "pod",
            "a",
            "'pod' is no kind that can be explained; there are: capacityreserve, cluster, ",
            id="another kind",
        ),
        pytest.param("machine", "", "which machine? Write machine NAME", id="no name"),
        pytest.param("machine/", "", "which machine? Write machine NAME", id="an empty name"),
        pytest.param("machine/a", "b", "'machine/a' has a name already; leave 'b' out", id="two names"),
    ],
)
def test_what_names_nothing_is_refused(text, name, said):
    with pytest.raises(InvalidInput) as refused:
        named(subjects(), text, name)
    assert str(refused.value).startswith(said)


def facts(kind, status, *, meta=None, spec=None, **more):
    found = {
        "metadata": {"name": "a", "namespace": "ns", **(meta or {})},
        "spec": spec or {},
        "status": status,
    }
    return Facts(named(subjects(), kind, "a")[0][0], found, **more)


def machine(phase, description="", **meta):
    last = {"description": description}
    current = {"phase": phase, "lastUpdateTime": "2030-01-01T11:00:00Z"}
    return {"metadata": {"name": "m1", **meta}, "status": {"currentStatus": current, "lastOperation": last}}


WAITING = Pass(
    controller="machine",
    namespace="ns",
    name="a",
    at=ago(minutes=1),
    since=ago(minutes=4),
    because="it is Unknown; its health timeout runs",
    next=NOW + timedelta(minutes=6),
    next_because="its plan asked for it",
)


@pytest.mark.parametrize(
    ("given", "state", "since", "waits"),
    [
        pytest.param(
            facts("mc", machine("Running")["status"]), "Running", ago(hours=1), (), id="a machine that runs"
        ),
        pytest.param(
            facts("mc", machine("Unknown")["status"], passes=(WAITING,)),
            "Unknown",
            ago(hours=1),
            ("it is Unknown; its health timeout runs",),
            id="a machine that is not well waits for what its plan says",
        ),
        pytest.param(
            facts("mc", machine("CrashLoopBackOff", "no class")["status"]),
            "CrashLoopBackOff",
            ago(hours=1),
            ("no class",),
            id="where no plan is known its status says what it waits for",
        ),
        pytest.param(
            facts("mc", {}, meta={"creationTimestamp": "2030-01-01T11:30:00Z"}),
            "Pending",
            ago(minutes=30),
            ("it is Pending",),
            id="a machine without a status is Pending since it was made",
        ),
        pytest.param(
            facts("mc", machine("Running")["status"], meta={"deletionTimestamp": "2030-01-01T11:59:00Z"}),
            "Terminating",
            ago(minutes=1),
            ("it is Terminating",),
            id="a machine that is being deleted is Terminating before a controller says so",
        ),
        pytest.param(
            facts("mcs", {"readyReplicas": 1, "replicas": 2}, spec={"replicas": 2},
                  members=(machine("Running"), machine("Pending", "VM created on cloud provider."))),
            "1 of 2 ready",
            None,
            ("machine m1 is Pending: VM created on cloud provider.",),
            id="a set waits for its machines",
        ),
        pytest.param(
            facts("mcd", {"readyReplicas": 4, "replicas": 5}, spec={"replicas": 3, "excessReplicas": 2}),
            "4 of 5 ready, 2 of the 5 in excess",
            None,
            ("4 of 5 ready, 2 of the 5 in excess",),
            id="a deployment waits for machines that are to be kept free as well",
        ),
        pytest.param(
            facts("mcs", {"replicas": 1, "readyReplicas": 1}, spec={"replicas": 2}),
            "1 of 2 ready, 1 there",
            None,
            ("1 of 2 ready, 1 there",),
            id="a set that is too small waits for more, if nothing else is known",
        ),
        pytest.param(
            facts(
                "mcs",
                {"replicas": 1, "readyReplicas": 1},
                spec={"replicas": 2},
                passes=(
                    Pass(
                        controller="machineset",
                        name="a",
                        at=NOW,
                        since=NOW,
                        because="machines missing: 1, but scale-up is disabled",
                    ),
                ),
            ),
            "1 of 2 ready, 1 there",
            None,
            ("machines missing: 1, but scale-up is disabled",),
            id="a set that is too small waits for what its plan says",
        ),
        pytest.param(
            facts("mcd", {"replicas": 2, "readyReplicas": 2}, spec={"replicas": 2, "paused": True}),
            "2 of 2 ready",
            None,
            ("it is paused (spec.paused)",),
            id="a deployment that is paused",
        ),
        pytest.param(
            facts("mcs", {}, members=[machine("Unknown")] * 7),
            "",
            None,
            ("machines m1, m1, m1 and 4 more are Unknown",),
            id="machines that say the same share a clause",
        ),
        pytest.param(
            facts("mcd", {"conditions": [
                {"type": "Available", "status": "False", "message": "no minimum"},
                {"type": "Frozen", "status": "True", "message": "too many machines"},
                {"type": "ReplicaFailure", "status": "False"},
            ]}),
            "",
            None,
            ("Available: no minimum", "Frozen: too many machines"),
            id="conditions that are bad while they are True, and others",
        ),
        pytest.param(
            facts("node", {"conditions": [{"type": "Ready", "status": "Unknown", "reason": "Silent",
                                           "lastTransitionTime": "2030-01-01T11:58:00Z", "message": "stopped"}]},
                  spec={"unschedulable": True}),
            "NotReady",
            ago(minutes=2),
            ("Ready is Unknown (Silent: stopped)", "it is cordoned: no new Pods are placed on it"),
            id="a node that is silent and cordoned",
        ),
        pytest.param(
            facts("cluster", {"phase": "Provisioning", "conditions": [
                {"type": "InfrastructureReady", "status": "False", "message": "no endpoint yet"}]}),
            "Provisioning",
            None,
            ("InfrastructureReady: no endpoint yet",),
            id="a cluster waits for its conditions",
        ),
        pytest.param(
            facts("mc", machine("Running")["status"],
                  passes=(Pass(controller="machine", name="a", at=NOW, since=NOW, error="machines is forbidden"),)),
            "Running",
            ago(hours=1),
            ("machines is forbidden",),
            id="a pass that failed is waited for",
        ),
    ],
)  # fmt: skip
def test_state_and_what_is_waited_for(given, state, since, waits):
    story = tell(given)
    assert (story.state, story.since, story.waits_for) == (state, since, waits)


@pytest.mark.parametrize(
    ("passes", "expected", "told"),
    [
        pytest.param((WAITING,), (), [("machine looks again: its plan asked for it", WAITING.next)], id="the next look"),
        pytest.param(
            (WAITING,), (Expected(what="Failed", at=WAITING.next),), [("Failed", WAITING.next)],
            id="what that look will decide takes its place",
        ),
        pytest.param((), (), [], id="nothing that time brings"),
    ],
)  # fmt: skip
def test_what_comes_next(passes, expected, told):
    story = tell(facts("mc", {}, passes=passes, expected=expected))
    assert [(each.what, each.at) for each in story.next] == told


def test_the_last_events_are_told_oldest_first():
    def event(number):
        return Event(
            metadata=ObjectMeta(name=f"e{number}"), reason=f"R{number}", last_timestamp=ago(minutes=number)
        )

    story = tell(facts("mc", {}, events=[event(number) for number in range(10)]))
    assert [each.reason for each in story.events] == [f"R{number}" for number in reversed(range(8))]


LONG = "the budget default/web allows no eviction of the pod default/web-0"


def test_a_long_sentence_is_told_once_and_no_word_of_it_is_broken():
    story = Story(
        kind="machine",
        name="a",
        state="Terminating",
        says=f"Drain failed due to - {LONG}. Will retry",
        waits_for=(LONG,),
        decisions=(
            Decision(
                by="machine",
                source="manager",
                because=LONG,
                acted=Acted(at=NOW, because=LONG, steps=("Evict",)),
            ),
        ),
        events=(Happened(reason="FailedDrain", message=f"Drain failed due to - {LONG}", at=NOW),),
    )
    lines = list(page.lines(story, NOW))
    assert "\n".join(each.text for each in lines).count(LONG) == 2  # the wait, and the status as it stands
    rows = "\n".join(each.wrapped(60) for each in lines).split("\n")
    assert max(map(len, rows)) <= 60
    assert {word for row in rows for word in row.split()} == {
        word for each in lines for word in each.text.split()
    }


def test_a_sentence_that_is_part_of_others_is_told_once():
    """As a machine has it whose class is missing: in its status, as what it waits for, and as what comes."""
    missing = 'MachineClass "gone" not found in namespace "default"'
    story = Story(
        kind="machine",
        name="a",
        state="CrashLoopBackOff",
        says=missing,
        waits_for=(missing,),
        decisions=(
            Decision(
                by="machine",
                source="manager",
                because=missing,
                waits=(Waited(what="a class", remedy=f"mend this: {missing}", since=NOW),),
            ),
        ),
        next=(Expected(what=f"Failed: {missing}", at=NOW),),
        events=(Happened(reason="FailedValidation", message=missing, at=NOW),),
    )
    assert "\n".join(each.text for each in page.lines(story, NOW)).count(missing) == 1


@pytest.mark.parametrize(
    ("finalizers", "waits"),
    [
        pytest.param(
            ["example.com/foo"], "finalizer example.com/foo: another program put it there", id="one"
        ),
        pytest.param(
            ["a/b", MACHINE_FINALIZER, "c/d"], "finalizer a/b, c/d: another program", id="beside ours"
        ),
        pytest.param(["foregroundDeletion"], "the objects that it owns are deleted first", id="foreground"),
    ],
)
def test_the_finalizers_of_others_are_named(finalizers, waits):
    meta = {"deletionTimestamp": "2030-01-01T11:59:00Z", "finalizers": finalizers}
    story = tell(facts("mc", machine("Terminating")["status"], meta=meta))
    assert story.waits_for[0].startswith(waits)
    alive = tell(facts("mc", machine("Running")["status"], meta={"finalizers": finalizers}))
    assert alive.waits_for == ()


def test_a_story_as_text():
    story = Story(
        kind="machine.machine.sapcloud.io",
        namespace="ns",
        name="a",
        state="Unknown",
        since=ago(minutes=4),
        says="Machine a is unhealthy",
        console=("[FAILED] to start", "panic"),
        waits_for=("its health timeout runs",),
        decisions=(
            Decision(
                by="machine",
                source="manager",
                because="its health timeout runs",
                since=ago(minutes=4),
                at=ago(seconds=30),
                why="Node a changed",
                error="the server said no",
                waits=(Waited(what="Secret keys", remedy="create it", since=ago(minutes=3)),),
                acted=Acted(at=ago(hours=1), because="it has no VM on record", steps=("Call",)),
            ),
            Decision(by="machineset", source="objects", because="0 of 2 machines", steps=("Create",)),
        ),
        next=(Expected(what="Failed: too long", at=NOW + timedelta(minutes=6)), Expected(what="a change")),
        driver="sim, in the manager's process",
        belongs_to=("machineset s", "node a"),
        notes=("events: no",),
        events=(
            Happened(reason="MachineUnknown", message="silent", at=ago(minutes=4), type="Warning", count=2),
        ),
    )
    assert [each.text for each in page.lines(story, NOW)] == [
        "machine.machine.sapcloud.io/a in namespace ns",
        "  state       Unknown since 2030-01-01T11:56:00Z (4m): Machine a is unhealthy",
        "  console     [FAILED] to start",
        "              panic",
        "  waits for   its health timeout runs",
        "  decided     machine: its health timeout runs (for 4m)",
        "                it looked 30s ago, because Node a changed",
        "                it waits for Secret keys, for 3m; create it",
        "                that failed: the server said no",
        "                it acted last 60m ago: it has no VM on record [Call]",
        "              machineset, by what this server shows: 0 of 2 machines [Create]",
        "  next        at 2030-01-01T12:06:00Z (in 6m) at the latest: Failed: too long",
        "              a change",
        "  driver      sim, in the manager's process",
        "  belongs to  machineset s, node a",
        "  events      4m ago    MachineUnknown: silent (2 times)",
        "  note        events: no",
    ]


def test_the_console_in_a_status_is_a_paragraph_of_its_own():
    status = {
        "currentStatus": {"phase": "Failed"},
        "lastOperation": {"description": "It failed.\nThe end of its VM's console:\none\ntwo"},
    }
    story = tell(facts("mc", status))
    assert (story.says, story.console, story.waits_for) == ("It failed.", ("one", "two"), ("It failed.",))


def test_what_a_user_wrote_into_an_event_is_no_command_to_the_terminal(capsys):
    print_lines([page.Line("note  \x1b]0;yours\x07\x1b[2Jno\tway\u202e\nnext")])
    assert capsys.readouterr().out == "note  ]0;yours[2Jno way\nnext\n"


def test_what_the_driver_says_of_a_vm_is_told():
    """That it was booted before its machine was made, say."""
    status = {**machine("Running")["status"], "lastKnownState": "on: it was woken" + "." * 1000}
    (note,) = tell(facts("mc", status)).notes
    assert note.startswith("its driver says of the VM: on: it was woken...")
    assert len(note) < 350
