"""A simulated cloud that outlives the controllers, and a hollow kubelet on each of its VMs.

The cloud
    ``spec``       what a class may say in its ``providerSpec``
    ``names``      machine names that choose a behaviour (``quota-…``, ``dies-…``)
    ``vm``         a VM as a value, and its state at a given moment; and a volume
    ``store``      the file that VMs are kept in across restarts
    ``inventory``  VMs and volumes, gone VMs that lists with a lag still show, and the observer of changes
    ``cloud``      all of it together: the API that the driver calls, and what an operator may do to VMs
    ``driver``     the driver port on top
The kubelets
    ``settings``      how often they write, how long pods take
    ``delay_queue``   which key is due next, for ten thousand VMs and a few workers
    ``registration``  the Node, conditions and Lease that they write
    ``kubelet``       what one kubelet remembers, and the decision what it does next
    ``kubelets``      the workers that carry it out
    ``pods``, ``pod_workers``   the same pair for pods
Clusters
    ``boot``       VMs that become nodes by their bootstrap data, and the port to what runs control planes
For people
    ``manifests``     ready-to-use classes and their Secret

Entry point ``sim`` of group ``kubewright.drivers``: ``driver`` below.
"""

from msgspec.structs import fields

from kubewright.driver.registry import Settings
from kubewright.providers.sim.cloud import Cloud
from kubewright.providers.sim.driver import SimDriver
from kubewright.providers.sim.settings import KubeletSettings, kubelet_settings
from kubewright.providers.sim.store import Store

CLOUD_FILE = "cloud.db"
"""The cloud's file in the data folder."""


OPTIONS = tuple(each.encode_name for each in fields(KubeletSettings))


def driver(settings: Settings) -> SimDriver:
    """The simulated cloud's driver; in memory when there is no data folder.

    Raises:
        InvalidInput: the file is in use, unreadable, of another version or lost; an option is unknown.
    """
    path = None if settings.data_dir is None else settings.data_dir / CLOUD_FILE
    return SimDriver(
        Cloud(settings.clock, Store(path, used=settings.used)), kubelet_settings(settings.options)
    )
