"""Drivers in other processes: they dial in over gRPC, register, and carry out what is asked of them.

    ``driver.proto``  what is said, for authors of drivers in any language
    ``messages``      the same as values, and their bytes; where drivers dial, and who may
    ``operations``    which operation is sent when, whose an answer is, and what it says to the port
    ``connection``    one stream, from its registration to its end; the classes and secrets that drivers fetch
    ``dispatch``      the driver port on top: which driver serves which class; and gRPC itself
    ``client``        the other side: a driver that serves a manager

Entry point ``grpc`` of group ``kubewright.drivers``: ``driver`` below. Needs the extra ``grpc``.

gRPC reads its environment when it is first imported, which is always after this file. It hears here that
each process that we start executes another program at once (gRPC's page on forks): its handlers for
other forks would do nothing but write a line to stderr each time. Who has set it otherwise is obeyed.
"""

import os
from importlib.util import find_spec

from kubewright.base.errors import InvalidInput
from kubewright.driver.contract import Driver
from kubewright.driver.registry import Settings
from kubewright.providers.grpc.messages import KNOWN, parse_options

OPTIONS = KNOWN

os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")


def driver(settings: Settings) -> Driver:
    """The driver of all drivers that dial in.

    Raises:
        InvalidInput: an option is unknown or wrong, or grpcio is not installed.
    """
    options = parse_options(settings.options, settings.data_dir)
    if find_spec("grpc") is None:
        raise InvalidInput("driver grpc needs grpcio: pip install 'kubewright[grpc]'")
    from kubewright.providers.grpc.dispatch import GrpcDriver

    return GrpcDriver(settings, options)
