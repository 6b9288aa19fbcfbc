"""The rules of control planes beyond the schema.

Theory.      Manifests written for Cluster API Provider Nested are accepted unchanged, so admission refuses
             only what can never have a meaning: a name that leaves the folder of templates, a file without a
             source, a number of instances below zero, a reference to another kind or namespace. What another
             change may make right (a version that is not installed, a component that does not exist) is
             accepted, and the controller reports it in a condition.
Invariants.  Pure; every violation is reported, in the order of the fields.
Source       S3-10 (references in one namespace).
Called by    admission; and the controllers, since no webhook may have seen an object.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import timedelta

from kubewright.api.cluster.v1beta1 import ObjectReference
from kubewright.api.controlplane import schedules
from kubewright.api.controlplane.names import CHANNEL, LONGEST_CLUSTER_NAME, PACKAGE
from kubewright.api.controlplane.snapshots import (
    ControlPlaneRestore,
    ControlPlaneSnapshot,
    ControlPlaneSnapshotSchedule,
    SnapshotFile,
    SnapshotLocation,
)
from kubewright.api.controlplane.v1alpha4 import (
    DELETE,
    GROUP,
    NESTED_API_SERVER,
    NESTED_CONTROLLER_MANAGER,
    NESTED_ETCD,
    RETAIN,
    ComponentSpec,
    ControlPlaneUser,
    ControlPlaneUserSpec,
    Credential,
    ExtraFile,
    NestedControlPlane,
    NestedControlPlaneSpec,
    NestedControlPlaneTemplate,
    Patch,
    SleepSchedule,
    TemplateComponents,
)
from kubewright.api.faults import Errors, Fault, FieldError
from kubewright.base.durations import parse_duration
from kubewright.base.errors import InvalidInput

_FOLDER = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*")
_SHA256 = re.compile("[0-9a-f]{64}")
_FLAG = re.compile(r"[a-z][a-z0-9-]*")
RESERVED, SERVICE_ACCOUNT = "system:", "system:serviceaccount:"
LONGEST_NAME = 64
LEAST_LIFETIME, USUAL_LIFETIME, MOST_LIFETIME = timedelta(minutes=10), timedelta(days=1), timedelta(days=7)
PATCH_FORMS = ("strategic", "merge", "json")
_REFERENCES = (
    ("etcd", NESTED_ETCD.resource.kind),
    ("apiserver", NESTED_API_SERVER.resource.kind),
    ("controllerManager", NESTED_CONTROLLER_MANAGER.resource.kind),
)


def validate_component(spec: ComponentSpec) -> list[FieldError]:
    """Every broken rule of a component's spec; empty when it is good."""
    return [
        *_safe_names(spec),
        *_patches(spec.patches),
        *_replicas("spec.replicas", spec.replicas),
        *_flags(spec),
        *_files(spec.extra_files),
    ]


def validate_control_plane(plane: NestedControlPlane) -> list[FieldError]:
    """Every broken rule of a NestedControlPlane; empty when it is good."""
    errors = list(_control_plane_spec(plane.spec, "spec", plane.namespace))
    if len(plane.name) > LONGEST_CLUSTER_NAME:
        told = f"must be no longer than {LONGEST_CLUSTER_NAME} characters, since names of workloads end in it"
        errors.insert(0, FieldError("metadata.name", told, Fault.INVALID, plane.name))
    return errors


def validate_template(template: NestedControlPlaneTemplate) -> list[FieldError]:
    """Every broken rule of a NestedControlPlaneTemplate; empty when it is good."""
    made, path = template.spec.template, "spec.template"
    errors = list(_control_plane_spec(made.spec, f"{path}.spec", template.namespace))
    components = made.components or TemplateComponents()
    for name, spec in (
        ("etcd", components.etcd),
        ("apiserver", components.apiserver),
        ("controllerManager", components.controller_manager),
    ):
        for each in validate_component(spec) if spec is not None else ():
            below = each.path.removeprefix("spec")
            errors.append(replace(each, path=f"{path}.components.{name}{below}"))
    return errors


def validate_user(user: ControlPlaneUser) -> list[FieldError]:
    """Every broken rule of a ControlPlaneUser; empty when it is good."""
    return [*_named_plane(user), *_names_of(user), *_account(user.spec), *_lifetime(user.spec)]


def validate_user_change(old: ControlPlaneUser, new: ControlPlaneUser) -> list[FieldError]:
    """What must not change: the control plane, which has objects of the user."""
    if old.spec.control_plane_name in ("", new.spec.control_plane_name):
        return []
    told = "it is immutable: make another ControlPlaneUser"
    return [FieldError("spec.controlPlaneName", told, Fault.FORBIDDEN)]


def lifetime_of(spec: ControlPlaneUserSpec) -> timedelta:
    """For how long a kubeconfig of this user is good.

    Raises:
        InvalidInput: it is no duration.
    """
    return parse_duration(spec.lifetime) if spec.lifetime else USUAL_LIFETIME


def _named_plane(user: ControlPlaneUser) -> Errors:
    if not user.spec.control_plane_name:
        yield FieldError("spec.controlPlaneName", "it names no control plane")


def _names_of(user: ControlPlaneUser) -> Errors:
    """A certificate carries them: each has 1 to 64 characters (X.520)."""
    if not user.spec.groups:
        yield FieldError("spec.groups", "name one group at least: roles are given to groups")
    named = [("spec.user", user.spec.user or user.name)]
    named += [(f"spec.groups[{number}]", each) for number, each in enumerate(user.spec.groups)]
    for path, name in named:
        if not 0 < len(name) <= LONGEST_NAME:
            yield FieldError(path, f"must have 1 to {LONGEST_NAME} characters", Fault.INVALID, name)
        if name.startswith(RESERVED) and not user.spec.privileged:
            told = f"names that begin with {RESERVED} are for spec.privileged users only"
            yield FieldError(path, told, Fault.FORBIDDEN)


def _account(spec: ControlPlaneUserSpec) -> Errors:
    """A service account is no user that an account may impersonate by name alone: it has a namespace."""
    if spec.user.startswith(SERVICE_ACCOUNT) and spec.credential != Credential.CERTIFICATE:
        told = f"a name that begins with {SERVICE_ACCOUNT} needs spec.credential {Credential.CERTIFICATE}"
        yield FieldError("spec.user", told, Fault.FORBIDDEN)


def _lifetime(spec: ControlPlaneUserSpec) -> Errors:
    try:
        asked = lifetime_of(spec)
    except InvalidInput as error:
        yield FieldError("spec.lifetime", str(error), Fault.INVALID, spec.lifetime)
        return
    if not LEAST_LIFETIME <= asked <= MOST_LIFETIME:
        yield FieldError("spec.lifetime", "must be from 10m to 168h", Fault.INVALID, spec.lifetime)


def validate_snapshot(snapshot: ControlPlaneSnapshot) -> list[FieldError]:
    """Every broken rule of a ControlPlaneSnapshot; empty when it is good."""
    spec = snapshot.spec
    errors = [*_named("spec.controlPlaneName", spec.control_plane_name), *_location(spec.location)]
    if spec.deletion_policy not in ("", RETAIN, DELETE):
        told = f"must be {RETAIN} or {DELETE}"
        errors.append(FieldError("spec.deletionPolicy", told, Fault.INVALID, spec.deletion_policy))
    return errors


def validate_schedule(schedule: ControlPlaneSnapshotSchedule) -> list[FieldError]:
    """Every broken rule of a ControlPlaneSnapshotSchedule; empty when it is good."""
    spec = schedule.spec
    errors = [
        *_named("spec.controlPlaneName", spec.control_plane_name),
        *_location(spec.location),
        *_expression("spec.schedule", spec.schedule),
        *_time_zone("spec.timeZone", spec.time_zone),
    ]
    if spec.keep is not None and spec.keep < 1:
        errors.append(FieldError("spec.keep", "must be 1 or more", Fault.INVALID, spec.keep))
    return errors


def validate_restore(restore: ControlPlaneRestore) -> list[FieldError]:
    """Every broken rule of a ControlPlaneRestore; empty when it is good."""
    spec, file = restore.spec, restore.spec.file
    if file is None:
        return list(_named("spec.snapshotName", spec.snapshot_name))
    errors = [
        *_named("spec.controlPlaneName", spec.control_plane_name),
        *_location(file.location, "spec.file.location"),
        *_file(file, restore.namespace),
    ]
    if spec.snapshot_name:
        errors.append(FieldError("spec.snapshotName", "a file is named too", Fault.FORBIDDEN))
    return errors


def _file(file: SnapshotFile, namespace: str) -> Errors:
    """In a folder of the program, a user reaches only files of snapshots of their own namespace."""
    parts = file.name.split("/")
    if file.location.bucket is not None:
        good, told = bool(file.name), "must be the key in the bucket, without the prefix"
    else:
        good = len(parts) == 3 and parts[0] == namespace and all(map(_FOLDER.fullmatch, parts))
        told = f"must be {namespace}/, and two more names with a slash between them, as status.file was"
    if not good:
        yield FieldError("spec.file.name", told, Fault.INVALID, file.name)
    if file.sha256 and not _SHA256.fullmatch(file.sha256):
        yield FieldError("spec.file.sha256", "must be 64 digits of 0-9 and a-f", Fault.INVALID, file.sha256)


def _named(path: str, name: str) -> Errors:
    if not name:
        yield FieldError(path, "it names no object")


def _location(location: SnapshotLocation, path: str = "spec.location") -> Errors:
    """A folder has to be below that of the program, so that no user reaches other files of its machine."""
    bucket = location.bucket
    if location.folder and bucket is not None:
        yield FieldError(f"{path}.folder", "a bucket is named too", Fault.FORBIDDEN)
    if location.folder and not all(map(_FOLDER.fullmatch, location.folder.split("/"))):
        told = "must be names of letters, digits, dashes and dots, with slashes between them"
        yield FieldError(f"{path}.folder", told, Fault.INVALID, location.folder)
    if bucket is not None:
        yield from _named(f"{path}.bucket.bucket", bucket.bucket)
        yield from _named(f"{path}.bucket.secretName", bucket.secret_name)


MOST_SCHEDULES = 100
"""Entries of a schedule: each is asked for its moments in every pass."""


def _control_plane_spec(spec: NestedControlPlaneSpec, path: str, namespace: str) -> Errors:
    references = (spec.etcd, spec.apiserver, spec.controller_manager)
    for (name, kind), named in zip(_REFERENCES, references, strict=True):
        if named is not None:
            yield from _reference(named, f"{path}.{name}", kind, namespace)
    yield from _version(f"{path}.version", spec.version)
    yield from _replicas(f"{path}.replicas", spec.replicas)
    if (many := len(spec.schedule)) > MOST_SCHEDULES:
        yield FieldError(
            f"{path}.schedule", f"may have {MOST_SCHEDULES} entries at most", Fault.INVALID, many
        )
    for number, each in enumerate(spec.schedule[:MOST_SCHEDULES]):
        yield from _schedule(each, f"{path}.schedule[{number}]")


def _schedule(schedule: SleepSchedule, path: str) -> Errors:
    if not schedule.sleep and not schedule.wake:
        yield FieldError(path, "needs sleep, wake, or both")
    for name, expression in (("sleep", schedule.sleep), ("wake", schedule.wake)):
        if expression:
            yield from _expression(f"{path}.{name}", expression)
    yield from _time_zone(f"{path}.timeZone", schedule.time_zone)


def _expression(path: str, expression: str) -> Errors:
    if told := _problem(schedules.check, expression):
        yield FieldError(path, told, Fault.INVALID, expression)


def _time_zone(path: str, name: str) -> Errors:
    if told := _problem(schedules.zone, name):
        yield FieldError(path, told, Fault.INVALID, name)


def _problem(read: Callable[[str], object], text: str) -> str:
    try:
        read(text)
    except InvalidInput as error:
        return str(error)
    return ""


def _reference(named: ObjectReference, path: str, kind: str, namespace: str) -> Errors:
    if not named.name:
        yield FieldError(f"{path}.name", "it names no object")
    if named.kind and named.kind != kind:
        yield FieldError(f"{path}.kind", f"must be {kind}", Fault.INVALID, named.kind)
    if named.group and named.group != GROUP:
        yield FieldError(
            f"{path}.apiVersion", f"must be of the group {GROUP}", Fault.INVALID, named.api_version
        )
    if named.namespace and namespace and named.namespace != namespace:
        told = "components are in the namespace of their control plane"
        yield FieldError(f"{path}.namespace", told, Fault.INVALID, named.namespace)


def _safe_names(spec: ComponentSpec) -> Errors:
    yield from _version("spec.version", spec.version)
    if spec.channel and not CHANNEL.fullmatch(spec.channel):
        told = "must be lower-case letters, such as stable, or a minor version, such as 1.36"
        yield FieldError("spec.channel", told, Fault.INVALID, spec.channel)


def _version(path: str, version: str) -> Errors:
    if version and (not PACKAGE.fullmatch(version) or ".." in version):
        yield FieldError(path, "must be a version such as 1.36.3", Fault.INVALID, version)


def _replicas(path: str, replicas: int | None) -> Errors:
    if replicas is not None and replicas < 0:
        yield FieldError(path, "must not be negative", Fault.INVALID, replicas)


def _patches(patches: Iterable[Patch]) -> Errors:
    for number, patch in enumerate(patches):
        path = f"spec.patches[{number}]"
        if "target" in patch:
            yield from _targeted(patch, path)
        elif not (patch.get("apiVersion") and patch.get("kind")):
            yield FieldError(path, "needs apiVersion and kind of what it changes, or a target")


def _targeted(patch: Patch, path: str) -> Errors:
    if not isinstance(patch["target"], Mapping):
        yield FieldError(f"{path}.target", "must be an object", Fault.INVALID, patch["target"])
    if not patch.get("patch"):
        yield FieldError(f"{path}.patch", "a patch with a target needs what it changes")
    if (form := patch.get("type", "strategic")) not in PATCH_FORMS:
        told = f"must be one of {', '.join(PATCH_FORMS)}"
        yield FieldError(f"{path}.type", told, Fault.INVALID, form)


def _flags(spec: ComponentSpec) -> Errors:
    named = [(f"spec.extraArgs[{name}]", name) for name in spec.extra_args]
    named += [(f"spec.withoutArgs[{number}]", name) for number, name in enumerate(spec.without_args)]
    for path, name in named:
        if not _FLAG.fullmatch(name):
            yield FieldError(
                path, "must be the name of a flag, without dashes before it", Fault.INVALID, name
            )
    for name in sorted(set(spec.extra_args) & set(spec.without_args)):
        yield FieldError(f"spec.extraArgs[{name}]", "spec.withoutArgs names it too", Fault.FORBIDDEN)


def _files(files: Iterable[ExtraFile]) -> Errors:
    seen: set[str] = set()
    for number, file in enumerate(files):
        path = f"spec.extraFiles[{number}]"
        parts = file.path.split("/")
        if not all(parts) or {".", ".."} & set(parts) or "\0" in file.path:
            told = "must be a path below the component's folder, without . and .."
            yield FieldError(f"{path}.path", told, Fault.INVALID, file.path)
        if file.path in seen:
            yield FieldError(f"{path}.path", "another file has it", Fault.INVALID, file.path)
        seen.add(file.path)
        if (file.secret is None) == (file.config_map is None):
            yield FieldError(path, "needs one source: a secret or a configMap")
