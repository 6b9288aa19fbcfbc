"""Who owns a VM that no Machine asked for, what its driver is asked, and what is shown of the answer.

Theory.      The owner of such a VM is ``vm.<uid>``: the uid follows from namespace and name, so that two
             commands mean one VM, and the tag before it says that it is no Machine's. Controllers keep the
             VMs of other owners than theirs (``driver.contract.owner_tag``), however long they list them.
             A driver that does not say in its lists for whom a VM was made gives them no way to see that,
             and the user is told.
Called by    ``command``, ``app``, ``managevm``, ``files``.
"""

import base64
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID, uuid5

from msgspec import structs

from kubewright.api.core import Secret
from kubewright.api.machine.v1alpha1 import MACHINE_CLASS, MachineClass
from kubewright.base.errors import InvalidInput
from kubewright.cli.switches import Unusable
from kubewright.driver import hot
from kubewright.driver.contract import ClassRequest, Instance, MachineRequest, owner_tag, stub
from kubewright.driver.hot import class_hash
from kubewright.machines.caches import class_seen, secret_keys, wants_token
from kubewright.machines.machine.act import filled
from kubewright.wire.gvk import Key
from kubewright.wire.naming import LABEL_VALUE, dns_subdomain, machine_name_problem

DIALLED = "grpc"
"""The driver whose clouds are behind processes that dial it."""
OWNER = "vm"
"""The kind before the uid of an owner that is no object."""
_UIDS = UUID("0b0c5d3a-6a0e-5c61-9e0f-3a4d7f0f5d2e")
USER_DATA = "userData"
SHORTEST = 4
"""Characters of a secret value that is looked for in texts; a shorter one would hide half of a sentence."""

OLD_KINDS: Mapping[str, str] = {
    "OpenStackMachineClass": "openstack",
    "AWSMachineClass": "aws",
    "AzureMachineClass": "azure",
    "GCPMachineClass": "gcp",
    "AlicloudMachineClass": "alicloud",
    "PacketMachineClass": "packet",
}
"""The kinds of classes that MCM had before MachineClass, and the drivers that make their VMs."""


def owner_uid(namespace: str, name: str) -> str:
    """The owner of the VM of this name."""
    return owner_tag(OWNER, str(uuid5(_UIDS, f"{namespace}/{name}")))


def driver_of_kind(kind: str, found: MachineClass, installed: Collection[str]) -> str:
    """The driver that a ``--classkind`` means.

    Raises:
        Unusable: it means none.
        InvalidInput: as ``driver_of_class``.
    """
    if kind == MACHINE_CLASS.resource.kind:
        return driver_of_class("", found, installed, switch="--classkind")
    if kind in (*installed, *OLD_KINDS.values()):
        return kind
    if kind in OLD_KINDS:
        return OLD_KINDS[kind]
    known = ", ".join([*sorted({*installed, *OLD_KINDS.values()}), *OLD_KINDS, MACHINE_CLASS.resource.kind])
    raise Unusable(f"--classkind {kind!r} is not known; there are: {known}")


HASHED = re.compile(r"-[0-9a-f]{16}$")
"""The end of a name that ``hashed`` has made."""


def hashed(found: MachineClass, hot: Sequence[str]) -> dict[str, Any]:
    """What is printed of the hash of a class: the hash, a name with it in place of an older one, and the
    fields that are not in it."""
    digits = class_hash(found.provider_spec, hot)
    base = HASHED.sub("", found.metadata.name)[: LABEL_VALUE - len(digits) - 1].rstrip("-.")
    return {"hash": digits, "name": f"{base}-{digits}" if base else digits, "hotFields": list(hot)}


def driver_of_class(
    named: str, found: MachineClass, installed: Collection[str], *, switch: str = "--driver"
) -> str:
    """The driver that is named (with ``switch``), else the one that the class names.

    Raises:
        Unusable: neither says which.
        InvalidInput: it is one that only a manager can ask.
    """
    driver, known = named or found.provider, ", ".join(sorted(installed)) or "none"
    if not driver:
        raise Unusable(f"which cloud? MachineClass {found.name} has no provider; name one with {switch} NAME")
    if driver == DIALLED:
        raise InvalidInput(
            f"driver {DIALLED} is the manager's side of drivers in other processes, which dial a manager and "
            f"not this command; name with {switch} the driver that serves the class, where it is installed "
            f"here: {known}"
        )
    if not named and driver not in installed:
        raise InvalidInput(
            f"there is no driver {driver!r}, the provider of MachineClass {found.name}; installed drivers: "
            f"{known}. A driver that serves a manager from a process of its own cannot be asked from here: "
            f"install it beside kubewright, or name with {switch} the installed driver that it is"
        )
    return driver


@dataclass(frozen=True, slots=True)
class Prepared:
    """A class with what its Secrets hold, and what a user should know about them."""

    request: ClassRequest
    notes: tuple[str, ...] = ()


def prepared(found: MachineClass, given: Sequence[Secret]) -> Prepared:
    """What a controller would pass to the driver. A Secret that the class does not name counts too, since the
    user has named it, and is told.

    Raises:
        Unusable: the class names a Secret, and none was given for it.
    """
    by_key = {Key(each.namespace, each.name): each for each in given}
    named = secret_keys(found)
    foreign = [key for key in by_key if key not in named]
    missing = [key for key in named if key not in by_key]
    if missing and not foreign:
        raise Unusable(
            f"MachineClass {found.name} names Secret {missing[0]}; give its file with --secret FILE"
        )
    if not missing:
        seen = class_seen(found, by_key.get)
        if seen.problem:
            raise Unusable(seen.problem)
    data: dict[str, bytes] = {}
    for key in [*(each for each in named if each in by_key), *foreign]:
        data |= by_key[key].data
    where = ", ".join(map(str, named)) or "no Secret"
    notes = [
        f"MachineClass {found.name} names {where}, not {key}; on a cluster it would not find this Secret"
        for key in foreign
    ]
    if found.secret_ref is not None and USER_DATA not in data:
        notes.append(f"its Secret has no {USER_DATA}; a controller makes no machine of such a class")
    return Prepared(ClassRequest(found, Secret(data=data)), tuple(notes))


def machine_request(of: ClassRequest, name: str, provider_id: str = "", *, state: str = "") -> MachineRequest:
    """What a controller would ask for a machine of this name; with the user data filled in, but for a token:
    there is no cluster to join."""
    namespace = of.machine_class.metadata.namespace
    machine = stub(name, namespace, owner_uid(namespace, name), provider_id=provider_id)
    if state:
        machine = structs.replace(machine, status=structs.replace(machine.status, last_known_state=state))
    request, data = of.of(machine), of.secret.data
    if USER_DATA not in data:
        return request
    secret = structs.replace(of.secret, data={**data, USER_DATA: filled(data[USER_DATA], name, None)})
    return MachineRequest(request.machine, request.machine_class, secret)


def name_problem(name: str) -> str:
    """What is wrong with the name of a machine, in a clause; empty if nothing is."""
    long = machine_name_problem(name)
    return "; ".join([*dns_subdomain(name), *([long] if long else [])])


def hidden(text: str, secrets: Iterable[bytes]) -> str:
    """A text without the values of secrets, as they are and in base64."""
    for value in sorted(secrets, key=len, reverse=True):
        for form in (value.decode(errors="replace").strip(), base64.b64encode(value).decode()):
            if len(form) >= SHORTEST:
                text = text.replace(form, "***")
    return text


def summary(request: MachineRequest, driver: str) -> dict[str, Any]:
    """What a driver would be asked, for people: of a Secret its keys only."""
    data = request.secret.data
    user_data = data.get(USER_DATA, b"")
    return {
        "driver": driver,
        "machineName": request.name,
        "namespace": request.namespace,
        "ownerUID": request.owner_uid,
        "machineClass": request.machine_class.name,
        "secretKeys": sorted(data),
        "userDataBytes": len(user_data),
        "bootstrapToken": "the placeholder stays: there is no cluster" if wants_token(user_data) else "",
    }


@dataclass(frozen=True, slots=True)
class Update:
    """What an update is about: what the VM is to be (``goal``), the ``hot`` fields of the driver, the paths
    that are ``changed`` in them since the last one (None: not known), and those that differ and are
    ``fixed``."""

    goal: Mapping[str, Any]
    hot: tuple[str, ...]
    changed: tuple[str, ...] | None
    fixed: tuple[str, ...]

    def shown(self, dry_run: bool) -> dict[str, Any]:
        """As JSON."""
        found = {"hotFields": self.hot, "changed": self.changed, "fixed": self.fixed}
        return {**found, "dryRun": dry_run}

    def lines(self, vm: str, dry_run: bool) -> list[str]:
        """As text."""
        what = ", ".join(self.hot if self.changed is None else self.changed) or "nothing"
        known = "" if self.changed is not None else "; what it had last is not known, so nothing is removed"
        if dry_run:
            return [f"would update {vm}: {what}{known} (--dry-run)"]
        return [f"updated {vm}: {what}{known}"]


def update_of(wanted: Mapping[str, Any], last: Mapping[str, Any] | None, fields: Sequence[str]) -> Update:
    """What the update of a providerSpec is about. As with the controllers, the driver is told fixed fields as
    they were applied last: by others it could look for the VM in another place."""
    if last is None:
        return Update(wanted, tuple(fields), None, ())
    paths = hot.differences(last, wanted)
    fixed = hot.fixed(paths, fields)
    goal = hot.merged(last, wanted, fields) if fixed else wanted
    return Update(goal, tuple(fields), tuple(each for each in paths if each not in fixed), fixed)


def aimed(request: ClassRequest, goal: Mapping[str, Any]) -> ClassRequest:
    """The same for a class that says this."""
    return replace(request, machine_class=structs.replace(request.machine_class, provider_spec=goal))


def shown(vm: Instance) -> dict[str, Any]:
    """A VM as JSON."""
    return {
        "providerID": vm.provider_id,
        "nodeName": vm.node_name,
        "machineName": vm.machine_name,
        "ownerUID": vm.owner_uid,
        "addresses": [{"type": of, "address": address} for of, address in vm.addresses],
        "interruptible": vm.interruptible,
        "lastKnownState": vm.last_known_state,
    }


def made_lines(vm: Instance) -> list[str]:
    """A VM that was made, as MCM's ``managevm`` tells it."""
    return [f"Machine id: {vm.provider_id}", f"Name: {vm.node_name}"]


def lines(vm: Instance) -> list[str]:
    """A VM as text; what is not known of it is left out."""
    facts = [
        ("Machine id", vm.provider_id),
        ("Name", vm.node_name),
        *vm.addresses,
        ("State", vm.last_known_state),
    ]
    return [f"{name}: {value}" for name, value in facts if value]


def table(vms: Iterable[Instance]) -> list[str]:
    """VMs as lines with columns."""
    rows = [("MACHINE", "NODE", "MACHINE ID", "OWNER")]
    rows += [(vm.machine_name, vm.node_name, vm.provider_id, vm.owner_uid) for vm in vms]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    cells = ([cell.ljust(width) for cell, width in zip(row, widths, strict=True)] for row in rows)
    return ["   ".join(row).rstrip() for row in cells]


def unprotected(made: Instance, listed: Iterable[Instance], owner: str) -> str:
    """What a user must know of a VM whose driver does not say for whom it was made; empty if it does."""
    if all(each.owner_uid == owner for each in listed if each.provider_id == made.provider_id):
        return ""
    return (
        "this driver does not say in its lists for whom it has made a VM; a controller that lists VMs with "
        "the tags of this class takes this one for an orphan, and deletes it after five minutes"
    )
