"""For authors of drivers: a cloud in a process of its own, which serves a manager by dialling in.

    ``drivers``   the three functions of a small driver, or a whole one of the port (``driver.contract``)
    ``serving``   the connection, and the next one when it is lost; its stream: operations in, answers out

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

from kubewright.providers.grpc.client.drivers import DataProvider, DriverOffer, Provider, ProviderOffer
from kubewright.providers.grpc.client.serving import Target, serve

__all__ = ("DataProvider", "DriverOffer", "Provider", "ProviderOffer", "Target", "serve")
