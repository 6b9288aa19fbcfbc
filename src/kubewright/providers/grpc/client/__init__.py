"""For authors of drivers: a cloud in a process of its own, which serves a manager by dialling in.

    ``provider``  the three functions of a small driver, and what it may fetch
    ``drivers``   a whole driver of the port (``driver.contract``), served as it is
    ``serving``   one stream: operations in, answers out
    ``dial``      the connection, and the next one when it is lost

A small driver and its main::

    class MyCloud(Provider):
        async def create(self, machine_class, credentials, machine_id, machine_name): ...
        async def delete(self, machine_class, credentials, machine_id): ...
        async def list(self, machine_class, credentials, machine_id): ...


    asyncio.run(
        serve(ProviderOffer(MyCloud(), name="mycloud"), Target("unix:/srv/manager/grpc/drivers.sock"))
    )

How to go on from there: docs/how-to/drivers-in-other-processes.md.
"""

from kubewright.providers.grpc.client.dial import Target, serve
from kubewright.providers.grpc.client.drivers import DriverOffer
from kubewright.providers.grpc.client.provider import DataProvider, Provider, ProviderOffer

__all__ = ("DataProvider", "DriverOffer", "Provider", "ProviderOffer", "Target", "serve")
