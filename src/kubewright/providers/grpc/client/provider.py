"""A small driver: three functions, as in MCM's gRPC drivers of 2018, and what it may fetch.

Theory.      ``Provider`` is what an author writes; ``ProviderOffer`` makes answers of what it returns and
             raises. A function gets the class's name and revision; it fetches the class and its secret from
             the ``DataProvider`` that ``start`` has given it. Both are kept by revision, so that asking each
             time costs nothing.
Invariants.  What a provider raises becomes an error of the answer: a ``DriverError`` with its code, anything
             else as Unknown. Nothing that it raises ends the stream. No more than ``KEPT`` objects are kept.
Source       seed 004 §2.2 (ExternalDriverProvider, MachineClassDataProvider).
Called by    ``serving``; authors of drivers.
"""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

import structlog

from kubewright.driver.answers import checked, unknown_error
from kubewright.driver.errors import DriverError
from kubewright.providers.grpc.answers import failed
from kubewright.providers.grpc.messages import (
    Content,
    Created,
    Deleted,
    Failure,
    Listed,
    ListedVm,
    MachineClassMeta,
    MCMside,
    Params,
    Registration,
    SecretMeta,
    decode,
    encode,
)
from kubewright.providers.grpc.operations import ANSWERS, Kind

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
