"""``machine.sapcloud.io/v1alpha1``: the machines of Gardener's machine-controller-manager.

``v1alpha1``   the four kinds, field for field
``names``      every string that others parse: labels, annotations, taints, phases, reasons
``excess``     machines that are kept free: taints, annotations
``validate``   what an omitted field means; the rules beyond the schema, with MCM's own messages
``manifests``  the four CustomResourceDefinitions, and the permissions that our controllers need
"""
