"""A simulated cloud that outlives the controllers, and a hollow kubelet on each of its VMs.

The cloud
    ``spec``       what a class may say in its ``providerSpec``; how often kubelets write, how long pods take
    ``vm``         a VM as a value, and its state at a given moment; and a volume
    ``inventory``  VMs and volumes, the file that keeps them, gone VMs that lists with a lag still show
    ``cloud``      the API that the driver calls, what an operator may do to VMs, and names of machines that
                   choose a behaviour (``quota-…``, ``dies-…``)
    ``driver``     the driver port on top
The kubelets
    ``delay_queue``   which key is due next, for ten thousand VMs and a few workers
    ``registration``  the Node, conditions and Lease that they write (pure)
    ``kubelets``      what each remembers, the decision what it does next, and the workers that carry it out
    ``pods``          the same for pods
VMs that boot from their user data, as cloud-init and kubeadm would boot a real one
    ``kubeadm``        what user data asks for: to start a control plane, or to join one (pure)
    ``tls_bootstrap``  the port to what runs control planes, which VM belongs to which cluster, and how a VM
                       joins an API server that is another process
    ``boots``          carries it out, for each VM that has such data, and runs the kubelets of such VMs
For people
    ``manifests``     ready-to-use classes and their Secret

Entry point ``sim`` of group ``kubewright.drivers``: ``driver`` below.
"""

from msgspec.structs import fields

from kubewright.driver.registry import Settings
from kubewright.providers import CLOUD_FILE
from kubewright.providers.sim.cloud import Cloud
from kubewright.providers.sim.driver import SimDriver
from kubewright.providers.sim.inventory import Store
from kubewright.providers.sim.spec import KubeletSettings, kubelet_settings

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
