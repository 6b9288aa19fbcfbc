"""Several drivers as one, and endpoints behind the guard. Time is virtual."""

from collections.abc import Sequence

import pytest

from kubewright.api.machine.v1alpha1 import MachineClass
from kubewright.api.meta import ObjectMeta
from kubewright.driver.contract import (
    ClassRequest,
    Driver,
    Instance,
    MachineRequest,
    VolumeSpec,
    is_tagged,
    owner_tag,
    stub,
)
from kubewright.driver.errors import InvalidArgument, Unimplemented
from kubewright.driver.guard import GuardedDriver
from kubewright.driver.registry import RoutedDriver, reached
from kubewright.testing.clocks import LoopClock


class Cloud:
    """A cloud that answers with its own name, and gives no addresses."""

    def __init__(self, name: str) -> None:
        self.name = name

    async def create(self, request: MachineRequest) -> Instance:
        return Instance(f"{self.name}://{request.name}", request.name)

    async def initialize(self, request: MachineRequest) -> Instance:
        return await self.create(request)

    async def delete(self, request: MachineRequest) -> str | None:
        return self.name

    async def status(self, request: MachineRequest) -> Instance:
        return await self.create(request)

    async def list(self, request: ClassRequest) -> Sequence[Instance]:
        return [Instance(f"{self.name}://all", "all")]

    async def volume_ids(self, volumes: Sequence[VolumeSpec]) -> Sequence[str]:
        return [volume.name for volume in volumes if volume.name.startswith(self.name)]


class CloudWithAddresses(Cloud):
    """One that gives addresses."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.given: dict[str, str] = {}

    async def endpoint(self, request: ClassRequest) -> tuple[str, int]:
        host = self.given.setdefault(request.machine_class.name, f"{request.machine_class.name}.{self.name}")
        return host, 6443

    async def release(self, request: ClassRequest) -> None:
        self.given.pop(request.machine_class.name, None)


def routed(*clouds: Cloud) -> RoutedDriver:
    guarded = {cloud.name: GuardedDriver(_driver(cloud), LoopClock()) for cloud in clouds}
    return RoutedDriver(guarded, own=clouds[0].name)


def _driver(cloud: Cloud) -> Driver:
    return cloud


def of(driver: str) -> ClassRequest:
    return ClassRequest(MachineClass(metadata=ObjectMeta(name="demo", namespace="ns"), provider=driver))


async def test_a_request_goes_to_the_driver_that_its_class_names() -> None:
    drivers, machine = routed(Cloud("a"), Cloud("b")), stub("m", "ns")

    assert (await drivers.create(of("b").of(machine))).provider_id == "b://m"
    assert (await drivers.status(of("").of(machine))).provider_id == "a://m"
    assert await drivers.delete(of("b").of(machine)) == "b"
    assert [vm.provider_id for vm in await drivers.list(of("b"))] == ["b://all"]


async def test_volumes_are_asked_for_everywhere() -> None:
    drivers = routed(Cloud("a"), Cloud("b"))

    assert await drivers.volume_ids([VolumeSpec("b-1", {}), VolumeSpec("a-1", {})]) == ["a-1", "b-1"]


class CloudWithoutVolumes(Cloud):
    """One that does not offer the optional call."""

    async def volume_ids(self, volumes: Sequence[VolumeSpec]) -> Sequence[str]:
        raise Unimplemented("not here")


async def test_a_driver_that_knows_no_volumes_hides_those_of_no_other() -> None:
    drivers = routed(CloudWithoutVolumes("a"), Cloud("b"))

    assert await drivers.volume_ids([VolumeSpec("b-1", {})]) == ["b-1"]


async def test_a_driver_that_is_not_there_is_an_error_of_the_vocabulary() -> None:
    drivers = routed(Cloud("a"))

    assert drivers.problem("c") == "driver 'c' does not run in this program, only: a"
    assert drivers.problem("") == ""
    with pytest.raises(InvalidArgument, match="driver 'c' does not run"):
        await drivers.initialize(of("c").of(stub("m", "ns")))


async def test_only_some_drivers_give_addresses() -> None:
    drivers = routed(CloudWithAddresses("a"), Cloud("b"))

    assert (drivers.offers_endpoints(""), drivers.offers_endpoints("b")) == (True, False)
    assert await drivers.endpoint(of("a")) == ("demo.a", 6443)
    await drivers.release(of("a"))
    with pytest.raises(Unimplemented, match="offers no endpoints"):
        await drivers.endpoint(of("b"))


def test_owners_of_another_api_can_be_told_apart() -> None:
    tag = owner_tag("KubewrightMachine", "1-2-3")

    assert tag == "kubewrightmachine.1-2-3"
    assert (is_tagged(tag), is_tagged(tag, "KubewrightMachine"), is_tagged(tag, "Other")) == (
        True,
        True,
        False,
    )
    assert not is_tagged("1-2-3")


async def test_a_driver_that_does_not_validate_classes_says_so() -> None:
    drivers = routed(Cloud("here"))
    with pytest.raises(Unimplemented):
        await drivers.validate(of("here"))
    with pytest.raises(InvalidArgument, match="driver 'elsewhere' does not run"):
        await drivers.validate(of("elsewhere"))


class Choosy(Cloud):
    """One that accepts no class."""

    async def validate(self, request: ClassRequest) -> None:
        raise InvalidArgument(f"class {request.machine_class.name} asks for too much")


async def test_one_that_does_answers_for_its_own_classes() -> None:
    drivers = routed(Choosy("here"))
    with pytest.raises(InvalidArgument, match="asks for too much"):
        await drivers.validate(of("here"))


async def test_where_names_are_not_the_programs_own_its_own_driver_is_asked_instead() -> None:
    guarded = {name: GuardedDriver(_driver(Cloud(name)), LoopClock()) for name in ("a", "b")}
    drivers, machine = RoutedDriver(guarded, "a", strict=False), stub("m", "ns")

    asked = [await drivers.create(of(name).of(machine)) for name in ("", "b", "AWS")]
    assert [each.provider_id for each in asked] == ["a://m", "b://m", "a://m"]


async def test_where_no_driver_tells_volumes_none_is_awaited() -> None:
    with pytest.raises(Unimplemented):
        await routed(CloudWithoutVolumes("a")).volume_ids([VolumeSpec("a-1", {})])


class Switchboard(Cloud):
    """One that stands for several clouds."""

    def provider_of(self, machine_class: MachineClass) -> str:
        return machine_class.provider


async def test_where_a_driver_stands_for_several_clouds_a_name_that_is_not_here_is_for_it() -> None:
    drivers = routed(Cloud("here"), Switchboard("dial-in"))
    assert drivers.problem("elsewhere") == ""
    made = await drivers.create(of("elsewhere").of(stub("m1", "ns")))
    assert made.provider_id == "dial-in://m1"
    assert (await drivers.create(of("here").of(stub("m1", "ns")))).provider_id == "here://m1"


class Distant(Switchboard):
    """One whose clouds come and go."""

    def reached(self, provider: str) -> str:
        return f"of {provider}"


@pytest.mark.parametrize(
    ("drivers", "own", "provider", "told"),
    [
        ([Cloud("a")], "a", "", "a, in the manager's process"),
        ([Cloud("a")], "a", "AWS", "a, in the manager's process"),
        ([Cloud("a"), Cloud("b")], "a", "b", "b, in the manager's process"),
        ([Cloud("a"), Distant("b")], "a", "c", "of c"),
        ([Cloud("a"), Distant("b")], "a", "a", "a, in the manager's process"),
        ([Cloud("a"), Distant("b")], "b", "", "of "),
        ([Cloud("a"), Distant("b")], "b", "b", "of b"),
        ([], "", "", ""),
    ],
)
def test_which_driver_makes_the_vms_of_a_provider_is_told(
    drivers: list[Cloud], own: str, provider: str, told: str
) -> None:
    assert reached({each.name: each for each in drivers}, own, provider) == told
