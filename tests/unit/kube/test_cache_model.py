"""The cache against random histories: the end state is the server's, and own writes always show.

The model is a server with a history, a watch that may be late, cut or forgotten, lists that are read
from one moment but arrive page by page, and writes of ours whose answers overtake or follow it all.
"""

import json
from dataclasses import dataclass, field

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kubewright.api.kinds import dynamic
from kubewright.kube import header
from kubewright.kube.cache import Cache, Change
from kubewright.kube.client import Written
from kubewright.kube.scope import Scope
from kubewright.wire.gvk import Key, Resource

THINGS = Resource("example.io", "v1", "things", "Thing")
NAMES = ["a", "b"]
COLOURS = ["red", "blue"]


@dataclass(frozen=True)
class State:
    """One object at one version."""

    name: str
    uid: str
    version: int
    colour: str = "red"
    finalizer: bool = False
    deleting: bool = False

    @property
    def body(self) -> bytes:
        meta: dict[str, object] = {
            "name": self.name,
            "namespace": "n",
            "uid": self.uid,
            "resourceVersion": str(self.version),
            "labels": {"colour": self.colour},
        }
        if self.finalizer:
            meta["finalizers"] = ["f"]
        if self.deleting:
            meta["deletionTimestamp"] = "2030-01-01T00:00:00Z"
        return json.dumps({"metadata": meta}).encode()


@dataclass
class Server:
    """The truth, and how it came about: (version, state before, state after)."""

    now: dict[str, State] = field(default_factory=dict)
    history: list[tuple[int, State | None, State | None]] = field(default_factory=list)
    version: int = 10
    births: int = 0

    def change(self, before: State | None, after: State | None) -> None:
        self.version += 1
        if before is not None:
            self.now.pop(before.name)
        if after is not None:
            after = State(**{**after.__dict__, "version": self.version})
            self.now[after.name] = after
        self.history.append((self.version, before, after))

    def create(self, name: str, *, colour: str, finalizer: bool) -> State:
        self.births += 1
        self.change(None, State(name, f"uid-{self.births}", 0, colour, finalizer))
        return self.now[name]


class CacheModel(RuleBasedStateMachine):
    """Everything may happen in any order; ``settle`` then lets the watch catch up."""

    selector = ""

    @initialize()
    def start(self) -> None:
        self.server = Server()
        self.shown: dict[Key, bytes] = {}
        self.cache = Cache(dynamic(THINGS), Scope("n", self.selector), self.tell)
        self.watching: int | None = None  # how much of the history this stream has told
        self.pages: list[list[State]] | None = None
        self.listed = 0
        self.answers: list[Written] = []
        self.acknowledged: dict[str, int] = {}  # uid -> version that must show
        self.ended: set[str] = set()
        self.read()

    # -- what listeners are told must be exactly what the cache goes through

    def tell(self, change: Change[object]) -> None:
        before = None if change.old is None else change.old.data
        assert self.shown.get(change.key) == before
        if change.new is None:
            del self.shown[change.key]
        else:
            assert change.old is None or change.old.uid == change.new.uid
            self.shown[change.key] = change.new.data

    # -- the server, changed by others and by us

    @rule(
        name=st.sampled_from(NAMES),
        colour=st.sampled_from(["red", "blue"]),
        ours=st.booleans(),
        data=st.data(),
    )
    def write(self, name: str, colour: str, ours: bool, data: st.DataObject) -> None:
        state = self.server.now.get(name)
        if state is None:
            created = self.server.create(name, colour=colour, finalizer=data.draw(st.booleans()))
            self.answer(ours, Written(THINGS, Key("n", name), created.body))
            return
        match data.draw(st.sampled_from(["patch", "delete", "finalize"])):
            case "patch":
                self.server.change(state, State(**{**state.__dict__, "colour": colour}))
                self.answer(ours, Written(THINGS, Key("n", name), self.server.now[name].body))
            case "delete" if state.finalizer:
                if not state.deleting:
                    self.server.change(state, State(**{**state.__dict__, "deleting": True}))
                self.answer(ours, Written(THINGS, Key("n", name), self.server.now[name].body, deleted=True))
            case "delete":
                self.server.change(state, None)
                body = data.draw(st.sampled_from([b"", state.body]))
                self.answer(ours, Written(THINGS, Key("n", name), body, state.uid, deleted=True))
            case "finalize" if state.finalizer:
                bare = State(**{**state.__dict__, "finalizer": False})
                self.server.change(state, None if state.deleting else bare)
                after = self.server.now.get(name, bare)
                self.answer(ours, Written(THINGS, Key("n", name), after.body))

    def answer(self, ours: bool, written: Written) -> None:
        if ours:
            self.answers.append(written)

    @rule(data=st.data())
    @precondition(lambda self: self.answers)
    def hear_answer(self, data: st.DataObject) -> None:
        """Answers of concurrent requests come in any order."""
        written = self.answers.pop(data.draw(st.integers(0, len(self.answers) - 1)))
        self.cache.wrote(written)
        if written.body:
            head, lives = header.read_answer(written.body, deleted=written.deleted)
            if lives:
                self.acknowledged[head.uid] = max(self.acknowledged.get(head.uid, 0), head.version)
            else:
                self.ended.add(head.uid)
        else:
            self.ended.add(written.uid)

    # -- the watch

    @rule(count=st.integers(1, 4))
    @precondition(lambda self: self.watching is not None)
    def hear_watch(self, count: int) -> None:
        for _ in range(count):
            assert self.watching is not None
            if self.watching < len(self.server.history):
                self.deliver(*self.server.history[self.watching])
                self.watching += 1

    def deliver(self, version: int, before: State | None, after: State | None) -> None:
        """As kube-apiserver: what leaves the selector is DELETED, at the version of the change."""
        was, is_ = (state is not None and self.takes(state) for state in (before, after))
        if is_ and after is not None:
            self.cache.event("MODIFIED" if was else "ADDED", header.read(after.body))
        elif was and before is not None:
            gone = State(**{**before.__dict__, "version": version})
            self.cache.event("DELETED", header.read(gone.body))
        self.own_writes_show()
        self.what_we_ended_does_not_return()

    def takes(self, state: State) -> bool:
        return not self.selector or state.colour == "red"

    @rule()
    @precondition(lambda self: self.watching is not None and self.watching == len(self.server.history))
    def hear_bookmark(self) -> None:
        self.cache.bookmark(self.server.version)

    @rule()
    @precondition(lambda self: self.watching is not None)
    def resume(self) -> None:
        """A cut: the next stream begins after what was seen."""
        self.watching = sum(version <= self.cache.seen for version, _, _ in self.server.history)

    # -- the list

    @rule(pages=st.integers(1, 3))
    @precondition(lambda self: self.pages is None)
    def ask_list(self, pages: int = 1) -> None:
        """410: the watch is over, a list begins; it shows this moment, whenever its pages arrive."""
        self.watching = None
        self.cache.begin()
        found = [state for state in self.server.now.values() if self.takes(state)]
        size = -(-len(found) // pages) or 1
        self.pages = [found[at : at + size] for at in range(0, len(found), size)] or [[]]
        self.listed = self.server.version

    @rule()
    @precondition(lambda self: self.pages is not None)
    def hear_page(self) -> None:
        assert self.pages is not None
        self.cache.page(self.listed, [header.read(state.body) for state in self.pages.pop(0)])
        if not self.pages:
            self.cache.end()
            self.pages = None
            self.watching = sum(version <= self.listed for version, _, _ in self.server.history)

    def read(self) -> None:
        if self.pages is None:
            self.ask_list(1)
        while self.pages is not None:
            self.hear_page()

    # -- what must hold

    @invariant()
    def own_writes_show(self) -> None:
        dead = {before.uid for _, before, after in self.server.history if before and not after}
        for uid, version in self.acknowledged.items():
            if uid in dead:
                continue
            (state,) = (state for state in self.server.now.values() if state.uid == uid)
            shown = self.cache.store.header(Key("n", state.name))
            if shown is None or shown.uid != uid:
                later = [
                    after
                    for at, _, after in self.server.history
                    if after and after.uid == uid and at >= version
                ]
                assert any(not self.takes(after) for after in later), f"{uid} at {version} does not show"
            else:
                assert shown.version >= version

    @invariant()
    def what_we_ended_does_not_return(self) -> None:
        assert not self.ended & {shown.uid for shown in self.cache.store}

    @invariant()
    def listeners_know_what_is_there(self) -> None:
        assert self.shown == {shown.key: shown.data for shown in self.cache.store}

    @invariant()
    def indexes_agree(self) -> None:
        assert set(self.cache.store.keys_by("namespace", "n")) == {shown.key for shown in self.cache.store}

    def teardown(self) -> None:
        """Whatever is under way arrives; then cache and server are the same."""
        if not hasattr(self, "server"):
            return
        for written in self.answers:
            self.cache.wrote(written)
        if self.watching is None:
            self.read()
        while self.watching is not None and self.watching < len(self.server.history):
            self.hear_watch(1)
        shown = {(each.key.name, each.version) for each in self.cache.store}
        assert shown == {(each.name, each.version) for each in self.server.now.values() if self.takes(each)}
        self.read()
        assert not self.cache.bars


class SelectedCacheModel(CacheModel):
    """The same for an informer that holds only what a label selector takes."""

    selector = "colour=red"


_STEPS = settings(stateful_step_count=40, suppress_health_check=list(HealthCheck))
TestCache = CacheModel.TestCase
TestCache.settings = _STEPS
TestSelectedCache = SelectedCacheModel.TestCase
TestSelectedCache.settings = _STEPS
