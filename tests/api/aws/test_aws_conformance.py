"""The aws driver keeps the driver contract."""

from contextlib import AbstractAsyncContextManager

import pytest

from kubewright.testing.driver_conformance import Bench, DriverConformance

from .bench import opened
from .ec2 import Place

pytestmark = pytest.mark.looptime(False)


class TestAws(DriverConformance):
    @pytest.fixture(autouse=True)
    def _placed(self, place: Place) -> None:
        self._place = place

    def bench(self) -> AbstractAsyncContextManager[Bench]:
        return opened(self._place)
