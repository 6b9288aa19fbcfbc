"""A simulated cloud that outlives the controllers, and a hollow kubelet on each of its VMs.

The cloud
    ``spec``      what a class may say in its ``providerSpec``
    ``names``     machine names that choose a behaviour (``quota-…``, ``dies-…``)
    ``vm``        a VM as a value, and what it does at a given moment; and a volume
    ``store``     the file that VMs survive restarts in
    ``estate``    what the cloud has, what lists that lag still show, and who is told of changes
    ``cloud``     all of it together: the API that the driver calls, and the operator's levers
    ``driver``    the driver port on top
The kubelets
    ``settings``      how often they write, how long pods take
    ``agenda``        what to look at next, for ten thousand VMs and a handful of workers
    ``registration``  the Node, conditions and Lease that they write
    ``guests``        one kubelet's memory, and the decision what it does next
    ``kubelets``      the loop that carries it out
    ``pods``, ``podlets``   the same pair for pods
For people
    ``manifests``     ready-to-use classes and their Secret

Entry point ``sim`` of group ``kubewright.drivers``: ``driver`` below.
"""

from kubewright.driver.registry import Settings
from kubewright.providers.sim.cloud import Cloud
from kubewright.providers.sim.driver import SimDriver
from kubewright.providers.sim.settings import kubelet_settings
from kubewright.providers.sim.store import Store

CLOUD_FILE = "cloud.db"
"""The cloud's file in the data folder."""


def driver(settings: Settings) -> SimDriver:
    """The simulated cloud's driver; in memory when there is no data folder.

    Raises:
        InvalidInput: the file is in use, unreadable or of another version; an option is unknown.
    """
    path = None if settings.data_dir is None else settings.data_dir / CLOUD_FILE
    return SimDriver(Cloud(settings.clock, Store(path)), kubelet_settings(settings.options))
