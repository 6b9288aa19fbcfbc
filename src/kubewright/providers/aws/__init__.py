"""Machines at AWS: an instance of EC2 each. Needs the extra ``kubewright[aws]``.

    ``spec``       what a class may say in its ``providerSpec``, and the administrator in the driver's options
    ``instances``  an instance as its tags and its state tell of it
    ``launch``     what is asked of EC2 for one machine: to make it, and to change one that runs
    ``calls``      the operations that are called, the rights for them, and what refusals mean
    ``ec2``        the client: kept, with questions that are gathered
    ``driver``     the driver port on top

Entry point ``aws`` of group ``kubewright.drivers``: ``driver`` below.
"""

from msgspec.structs import fields

from kubewright.driver.registry import Settings
from kubewright.providers.aws.driver import AwsDriver
from kubewright.providers.aws.ec2 import require_library
from kubewright.providers.aws.spec import Options, parse_options

OPTIONS = tuple(each.encode_name for each in fields(Options))


def driver(settings: Settings) -> AwsDriver:
    """The driver; it keeps nothing on this machine.

    Raises:
        InvalidInput: an option is unknown or out of range, or the library is not installed.
    """
    require_library()
    return AwsDriver(settings.clock, parse_options(settings.options))
