"""``machine.sapcloud.io/v1alpha1``: the machines of Gardener's machine-controller-manager.

``v1alpha1``   the four kinds, field for field (mcm.md §1)
``names``      every string that others parse: labels, annotations, taints, phases, reasons (mcm.md §2)
``defaults``   what an omitted field means
``validate``   the rules beyond the schema, with MCM's own messages
``crds``       the four CustomResourceDefinitions
``rbac``       the permissions that our controllers need
"""
