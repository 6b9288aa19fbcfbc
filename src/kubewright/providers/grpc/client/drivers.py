"""Serve a whole driver of the port to a manager in another process.

Theory.      What the manager sends with an operation, and what is fetched by its revision, is the request
             that the driver would have got in the manager's process; its answer goes back whole. So the
             driver need not know where it runs. It is behind a guard of its own (``driver.guard``): a call
             that hangs ends here, and what is no error of the vocabulary becomes one.
Invariants.  Only what the driver offers is registered. Its hot fields are those of a class that says nothing
             but its provider: they are told once, for all classes.
Called by    ``serving``; ``cli.driver.serve``.

A small driver: three functions, as in MCM's gRPC drivers of 2018, and what it may fetch.

Theory.      ``Provider`` is what an author writes; ``ProviderOffer`` makes answers of what it returns and
             raises. A function gets the class's name and revision; it fetches the class and its secret from
             the ``DataProvider`` that ``start`` has given it. Both are kept by revision, so that asking each
             time costs nothing.
Invariants.  What a provider raises becomes an error of the answer: a ``DriverError`` with its code, anything
             else as Unknown. Nothing that it raises ends the stream. No more than ``KEPT`` objects are kept.
"""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

import msgspec
import structlog
from msgspec import structs

from kubewright.api.core import SECRET, Secret
from kubewright.api.machine.v1alpha1 import MACHINE, MACHINE_CLASS, MachineClass
from kubewright.base.clock import Clock
from kubewright.base.errors import InvalidInput
from kubewright.driver.answers import checked, unknown_error
from kubewright.driver.contract import (
    ClassRequest,
    Driver,
    MachineRequest,
    Sizes,
    Updates,
    Validates,
    VolumeSpec,
    stub,
)
from kubewright.driver.errors import DriverError, InvalidArgument
from kubewright.driver.guard import GuardedDriver
from kubewright.providers.grpc import operations
from kubewright.providers.grpc.contents import key_of
from kubewright.providers.grpc.messages import (
    Content,
    Created,
    Deleted,
    Failure,
    Initialized,
    Listed,
    ListedVm,
    MachineClassMeta,
    MCMside,
    Params,
    Registration,
    SecretMeta,
    Sized,
    Status,
    Updated,
    Validated,
    VolumeIds,
    decode,
    encode,
)
from kubewright.providers.grpc.operations import ANSWERS, Kind, failed

log = structlog.get_logger(__name__)

KEPT = 500
GROUP, VERSION, CLASS_KIND = "machine.sapcloud.io", "v1alpha1", "MachineClass"

Fetch = Callable[[str, bytes], Awaitable[bytes]]
"""Calls ``GetMachineClass`` or ``GetSecret`` of the manager; raises ``DriverError``."""


class DataProvider:
    """The classes and secrets of a manager, kept by revision."""

    def __init__(self, fetch: Fetch) -> None:
        self._fetch = fetch
        self._kept: dict[MachineClassMeta | SecretMeta, str] = {}

    async def machine_class(self, meta: MachineClassMeta) -> str:
        """The class as JSON.

        Raises:
            DriverError: the manager did not answer, or knows no such class.
        """
        return await self._found(meta, "GetMachineClass")

    async def secret(self, meta: SecretMeta) -> str:
        """The Secret as JSON; its data are base64.

        Raises:
            DriverError: the manager did not answer, or knows no such secret.
        """
        return await self._found(meta, "GetSecret")

    async def _found(self, meta: MachineClassMeta | SecretMeta, method: str) -> str:
        found = self._kept.get(meta)
        if found is None:
            content = decode(Content, await self._fetch(method, encode(meta)))
            if content.error:
                raise DriverError(f"{method}: {content.error}")
            found = content.data
            while len(self._kept) >= KEPT:
                del self._kept[next(iter(self._kept))]
            if meta.revision:
                self._kept[meta] = found
        return found


class Offer(Protocol):
    """What is served: which classes, and what an operation is answered with."""

    @property
    def registration(self) -> Registration: ...

    async def answer(self, message: MCMside, data: DataProvider) -> Failure | None:
        """The response to one operation; None: the type is not known."""


class Provider(ABC):
    """A cloud, as its author writes it. Raise a ``DriverError`` to say what went wrong, and how."""

    data: DataProvider
    """Set before the first call."""

    @abstractmethod
    async def create(
        self, machine_class: MachineClassMeta, credentials: str, machine_id: str, machine_name: str
    ) -> tuple[str, str]:
        """Make a VM, or find the one that was made under this name: its provider id and its node's name."""

    @abstractmethod
    async def delete(self, machine_class: MachineClassMeta, credentials: str, machine_id: str) -> None:
        """Delete the VM with this provider id; one that is gone is success."""

    @abstractmethod
    async def list(
        self, machine_class: MachineClassMeta, credentials: str, machine_id: str
    ) -> Mapping[str, str]:
        """The names of machines by the provider ids of their VMs: all of the class, or the one VM."""


class ProviderOffer:
    """Serves a ``Provider``. ``name`` is what classes give as their provider; ``kind``: of another group."""

    def __init__(
        self,
        provider: Provider,
        *,
        name: str = "externalDriver",
        group: str = GROUP,
        kind: str = CLASS_KIND,
        version: str = VERSION,
        in_flight: int = 1,
    ) -> None:
        self._provider = provider
        self.registration = Registration(name, group, kind, version, in_flight=in_flight)

    async def answer(self, message: MCMside, data: DataProvider) -> Failure | None:
        """As ``Offer``."""
        self._provider.data = data
        params = message.params or Params()
        meta = params.machine_class or MachineClassMeta()
        try:
            match message.operation_type:
                case Kind.CREATE.value:
                    given = (meta, params.credentials, params.machine_id, params.machine_name)
                    vm = checked(await self._provider.create(*given), tuple[str, str], "create")
                    provider_id, node_name = vm
                    return Created(provider_id=provider_id, node_name=node_name)
                case Kind.DELETE.value:
                    await self._provider.delete(meta, params.credentials, params.machine_id)
                    return Deleted()
                case Kind.LIST.value:
                    listed = await self._provider.list(meta, params.credentials, params.machine_id)
                    found = checked(dict(listed), dict[str, str], "list")
                    return Listed(vms=tuple(ListedVm(each, name) for each, name in found.items()))
        except DriverError as error:
            return failed(ANSWERS[Kind(message.operation_type)], error)
        except Exception as error:  # a provider's code may raise anything
            log.exception("a provider raised a foreign error", operation=message.operation_type)
            return failed(ANSWERS[Kind(message.operation_type)], unknown_error(error))
        return None


IN_FLIGHT = 50
"""A driver of the port takes many calls at a time."""
ALWAYS = (Kind.CREATE, Kind.INITIALIZE, Kind.DELETE, Kind.STATUS, Kind.LIST, Kind.VOLUME_IDS)

Answer = Callable[[Params, DataProvider], Awaitable[Failure]]


class DriverOffer:
    """Serves ``driver`` under ``name``, which classes give as their provider. ``own``: the name by which the
    driver knows itself, and which it reads in classes instead; empty: what they say."""

    def __init__(
        self, driver: Driver, clock: Clock, name: str, *, own: str = "", in_flight: int = IN_FLIGHT
    ) -> None:
        self._own = own
        self._driver = GuardedDriver(driver, clock)
        beyond = {
            Kind.VALIDATE: isinstance(driver, Validates),
            Kind.SIZE: isinstance(driver, Sizes),
            Kind.UPDATE: isinstance(driver, Updates),
        }
        names = tuple(each.value for each in (*ALWAYS, *(kind for kind, offers in beyond.items() if offers)))
        hot = (
            tuple(self._driver.hot_fields(MachineClass(provider=own or name))) if beyond[Kind.UPDATE] else ()
        )
        self.registration = Registration(name, GROUP, CLASS_KIND, VERSION, names, in_flight, hot)
        self._answers: Mapping[Kind, Answer] = {
            Kind.CREATE: self._create,
            Kind.INITIALIZE: self._initialize,
            Kind.DELETE: self._delete,
            Kind.STATUS: self._status,
            Kind.LIST: self._list,
            Kind.VOLUME_IDS: self._volume_ids,
            Kind.VALIDATE: self._validate,
            Kind.SIZE: self._size,
            Kind.UPDATE: self._update,
        }

    async def answer(self, message: MCMside, data: DataProvider) -> Failure | None:
        """As ``provider.Offer``."""
        try:
            kind = Kind(message.operation_type)
        except ValueError:
            return None
        try:
            return await self._answers[kind](message.params or Params(), data)
        except DriverError as error:
            return operations.failed(ANSWERS[kind], error)
        except InvalidInput as error:  # an object of the manager that cannot be read here
            return operations.failed(ANSWERS[kind], InvalidArgument(str(error)))

    async def _create(self, params: Params, data: DataProvider) -> Failure:
        return operations.vm_answer(Created, await self._driver.create(await self._request(params, data)))

    async def _initialize(self, params: Params, data: DataProvider) -> Failure:
        return operations.vm_answer(
            Initialized, await self._driver.initialize(await self._request(params, data))
        )

    async def _delete(self, params: Params, data: DataProvider) -> Failure:
        state = await self._driver.delete(await self._request(params, data))
        return Deleted(last_known_state=state or "")

    async def _status(self, params: Params, data: DataProvider) -> Failure:
        return operations.vm_answer(Status, await self._driver.status(await self._request(params, data)))

    async def _list(self, params: Params, data: DataProvider) -> Failure:
        found = await self._driver.list(await self._class_request(params, data))
        return Listed(vms=tuple(operations.listed_vm(each) for each in found))

    async def _volume_ids(self, params: Params, _data: DataProvider) -> Failure:
        volumes = msgspec.json.decode(params.volumes or "[]", type=list[VolumeSpec])
        return VolumeIds(ids=tuple(await self._driver.volume_ids(volumes)))

    async def _validate(self, params: Params, data: DataProvider) -> Failure:
        await self._driver.validate(await self._class_request(params, data))
        return Validated()

    async def _size(self, params: Params, data: DataProvider) -> Failure:
        size = await self._driver.size(await self._class_request(params, data))
        return Sized(data=msgspec.json.encode(size).decode())

    async def _update(self, params: Params, data: DataProvider) -> Failure:
        last = None
        if params.last_applied:
            try:
                last = msgspec.json.decode(params.last_applied.encode(), type=dict[str, Any])
            except msgspec.DecodeError as error:
                raise InvalidArgument(f"lastAppliedProviderSpec cannot be read: {error}") from None
        await self._driver.update(await self._request(params, data), last)
        return Updated()

    async def _request(self, params: Params, data: DataProvider) -> MachineRequest:
        of_class = await self._class_request(params, data)
        if params.machine:
            machine = MACHINE.decode(params.machine.encode())
        else:
            namespace = of_class.machine_class.metadata.namespace
            machine = stub(params.machine_name, namespace, provider_id=params.machine_id)
        return MachineRequest(
            machine, of_class.machine_class, of_class.secret, params.data_format, params.version
        )

    async def _class_request(self, params: Params, data: DataProvider) -> ClassRequest:
        meta = params.machine_class or MachineClassMeta()
        found: MachineClass = MACHINE_CLASS.decode((await data.machine_class(meta)).encode())
        if self._own:
            found = structs.replace(found, provider=self._own)
        ref = found.secret_ref or found.credentials_secret_ref
        if ref is None:
            return ClassRequest(found)
        wanted = SecretMeta(ref.name, ref.namespace or key_of(meta.name)[0], meta.revision)
        secret = SECRET.decode((await data.secret(wanted)).encode())
        return ClassRequest(found, Secret(type=secret.type, data=secret.data))
