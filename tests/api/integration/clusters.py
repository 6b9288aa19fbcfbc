"""Two clusters in memory for ``kubewright driver test``, with a manager and a driver that may be a bad one."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from kubewright.api.core import SECRET
from kubewright.compose.options import Options
from kubewright.integration.bench import Bench, Settings
from kubewright.integration.cases import Case
from kubewright.integration.managers import Managers, Running
from kubewright.integration.report import Outcome, Report
from kubewright.integration.run import Trial
from kubewright.integration.tracker import ListTracker, ResourcesTracker, Tracked
from kubewright.providers.sim import manifests
from kubewright.providers.sim.spec import kubelet_settings
from kubewright.testing.stage import Borrowed, Stage, stage
from kubewright.testing.world import short_timeouts

NAMESPACE = "machines"


def class_file(folder: Path, name: str = "test-mc-v1", secret: str = "test-mc-secret", **spec: Any) -> Path:
    """A file with a class of the simulated cloud."""
    body = manifests.machine_class(name, NAMESPACE, pace=0.1, more=spec)
    body["secretRef"] = {"name": secret, "namespace": NAMESPACE}
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump(body))
    return path


@dataclass
class Lab:
    """What a test of the test has. ``lines`` is what was on the terminal; ``at``: what is done at a line that
    has a word."""

    here: Stage
    driver: Borrowed
    folder: Path
    lines: list[str] = field(default_factory=list)
    at: dict[str, Callable[[], Any]] = field(default_factory=dict)

    def tell(self, line: str) -> None:
        self.lines.append(line)
        for word in [word for word in self.at if word in line]:
            self.at.pop(word)()

    async def secret(self) -> None:
        """What a user does before: the Secret, by hand."""
        body = {**manifests.secret(NAMESPACE), "metadata": {"name": "test-mc-secret", "namespace": NAMESPACE}}
        await self.here.world.client.create(SECRET, body)

    def bench(self, **settings: Any) -> Bench:
        world = self.here.world
        chosen = {"namespace": NAMESPACE, "class_v1": self.folder / "test-mc-v1.yaml", **settings}
        return Bench(world.client, world.target, Settings(**chosen), self.tell)

    def test(
        self,
        *,
        tracker: ResourcesTracker | None = None,
        more: Sequence[Case] = (),
        managers: Managers | None = None,
        **settings: Any,
    ) -> Trial:
        tracked = Tracked(tracker or ListTracker(self.driver))
        return Trial(self.bench(**settings), managers or Running(), tracked, more)


@asynccontextmanager
async def lab(
    folder: Path, kind: type[Borrowed] = Borrowed, options: Options | None = None, *, two: bool = True
) -> AsyncIterator[Lab]:
    """Two clusters, a manager that runs, and the Secret that users make."""
    chosen = options or short_timeouts()
    async with stage(chosen, two=two) as here:
        driver = kind(here.cloud, kubelet_settings(chosen.driver_options))
        made = Lab(here, driver, folder)
        class_file(folder)
        await made.secret()
        async with here.process(driver):
            yield made


def outcomes(report: Report) -> dict[str, Outcome]:
    return {each.identity: each.outcome for each in report.results}


def message(report: Report, identity: str) -> str:
    return next(each.message for each in report.results if each.identity == identity)
