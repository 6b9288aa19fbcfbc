"""MachineClass, Machine, MachineSet and MachineDeployment, field for field as upstream serves them.

Theory.      Wire names, types and required fields equal those of machine-controller-manager
             (mcm.md §1), because cluster-autoscaler, Gardener and MCM itself read and write the
             same objects. The sentences are ours; the CRDs are made from these files.
Invariants.  A pointer upstream is ``| None`` here where unset and zero mean different things.
Map.         ``classes`` ``machines`` ``sets`` ``deployments``; import from here.
Continues    in ``machine.defaults`` (what an unset field means), ``validate`` and ``crds``.
"""

from kubewright.api.machine.v1alpha1.classes import (
    GROUP,
    MACHINE_CLASS,
    VERSION,
    ClassNodeTemplate,
    MachineClass,
    MachineClassCondition,
    MachineClassStatus,
    SecretReference,
)
from kubewright.api.machine.v1alpha1.deployments import (
    MACHINE_DEPLOYMENT,
    InPlaceUpdate,
    MachineDeployment,
    MachineDeploymentCondition,
    MachineDeploymentSpec,
    MachineDeploymentStatus,
    MachineDeploymentStrategy,
    RollbackConfig,
    RollingUpdate,
)
from kubewright.api.machine.v1alpha1.machines import (
    MACHINE,
    ClassSpec,
    CurrentStatus,
    LastOperation,
    Machine,
    MachineConfiguration,
    MachineSpec,
    MachineStatus,
    NodeTemplateSpec,
)
from kubewright.api.machine.v1alpha1.sets import (
    MACHINE_SET,
    MachineSet,
    MachineSetCondition,
    MachineSetSpec,
    MachineSetStatus,
    MachineSummary,
    MachineTemplateSpec,
)

__all__ = [
    "MACHINE_CLASS",
    "MachineClass",
    "MachineClassCondition",
    "MachineClassStatus",
    "ClassNodeTemplate",
    "SecretReference",
    "MACHINE_DEPLOYMENT",
    "MachineDeployment",
    "MachineDeploymentSpec",
    "MachineDeploymentStatus",
    "MachineDeploymentStrategy",
    "MachineDeploymentCondition",
    "RollingUpdate",
    "InPlaceUpdate",
    "RollbackConfig",
    "GROUP",
    "VERSION",
    "MACHINE",
    "Machine",
    "MachineSpec",
    "MachineStatus",
    "MachineConfiguration",
    "ClassSpec",
    "NodeTemplateSpec",
    "LastOperation",
    "CurrentStatus",
    "MACHINE_SET",
    "MachineSet",
    "MachineSetSpec",
    "MachineSetStatus",
    "MachineSetCondition",
    "MachineSummary",
    "MachineTemplateSpec",
]
