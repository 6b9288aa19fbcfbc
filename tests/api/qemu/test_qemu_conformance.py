"""The qemu driver keeps the driver contract."""

from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from kubewright.testing.driver_conformance import Bench, DriverConformance

from .bench import opened

pytestmark = pytest.mark.looptime(False)


class TestQemu(DriverConformance):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path, programs: str) -> None:
        self.folder, self.programs = tmp_path, programs

    def bench(self) -> AbstractAsyncContextManager[Bench]:
        return opened(self.folder, self.programs)
