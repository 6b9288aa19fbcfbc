"""What every story of the demo has: chapters, each with what a user would type, what is done, and its end.

Theory.      A chapter acts through the API, and looks until what it promises is true, or too late.
Called by    ``machines`` and ``clusters``, which are stories, and ``demo``, which tells one.
"""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from kubewright.cli.demo.stage import Stage
from kubewright.cli.demo.view import LEAVING, RUNNING, View, Words
from kubewright.compose.embedded import Embedded
from kubewright.compose.options import Options
from kubewright.providers.sim.cloud import Cloud
from kubewright.providers.sim.driver import SimDriver

LOOK = 0.1
"""Seconds between two looks at the machines."""


@dataclass(slots=True)
class Demo(ABC):
    """The demo's server, and what the chapters remember of it."""

    embedded: Embedded
    victim: str = ""
    most: int = 0
    fewest_running: int = 0

    @property
    def cloud(self) -> Cloud:
        """The simulated cloud, as its operators see it."""
        driver = self.embedded.driver
        assert isinstance(driver, SimDriver), "the demo runs on the simulated cloud"
        return driver.cloud

    @property
    def extremes(self) -> str:
        """How many machines there were since ``count_anew``, as a clause."""
        return f"at most {self.most} machines, at least {self.fewest_running} Running"

    @abstractmethod
    async def look(self) -> View:
        """What is there now."""

    def note(self, now: View) -> None:
        """Remember the extremes, for the chapter that reports them."""
        self.most = max(self.most, len(now.rows) - now.count(*LEAVING))
        self.fewest_running = min(self.fewest_running, now.count(RUNNING))

    async def count_anew(self) -> None:
        """Forget the extremes that were."""
        self.most = self.fewest_running = len((await self.look()).rows)

    def kill(self, machine: str) -> None:
        """Power the VM of a machine off: its kubelet stops without notice."""
        self.victim = machine
        if (vm := self.cloud.named(machine)) is not None:
            self.cloud.kill(vm.id)

    def survived(self, now: View) -> bool:
        """Whether the machine whose VM was killed is still there."""
        return any(row.name == self.victim for row in now.rows)


D = TypeVar("D", bound=Demo)


@dataclass(frozen=True, slots=True)
class Chapter(Generic[D]):
    """``types`` is what a user would type; ``ends`` whether it has ended well, ``within`` seconds at most."""

    title: str
    types: str
    act: Callable[[D], Awaitable[None]]
    ends: Callable[[D, View], bool]
    within: float = 20.0
    remark: Callable[[D], str] = lambda _demo: ""


@dataclass(frozen=True, slots=True)
class Story(Generic[D]):
    """``options`` are those of its server; ``begin`` makes what its chapters act on."""

    words: Words
    options: Options
    begin: Callable[[Embedded], D]
    chapters: tuple[Chapter[D], ...]


async def tell(story: Story[D], embedded: Embedded, stage: Stage) -> bool:
    """All chapters in order; stops at the first that does not end in time."""
    demo = story.begin(embedded)
    with stage:
        for chapter in story.chapters:
            if not await _chapter(demo, stage, chapter):
                return False
    stage.summary(await demo.look())
    return True


async def _chapter(demo: D, stage: Stage, chapter: Chapter[D]) -> bool:
    clock = demo.embedded.clock
    began = clock.monotonic()
    stage.open(chapter.title, chapter.types)
    await chapter.act(demo)
    while True:
        now = await demo.look()
        took = clock.monotonic() - began
        demo.note(now)
        stage.show(now, took)
        if chapter.ends(demo, now):
            stage.close(took, chapter.remark(demo))
            return True
        if took > chapter.within:
            stage.fail(chapter.title, now, chapter.within)
            return False
        await clock.sleep(LOOK)
