"""``controlplane.cluster.x-k8s.io/v1alpha4``: control planes as objects, in three parts that are objects too.

``v1alpha4``   the kinds, with the names and fields of Cluster API Provider Nested (nested.md A2)
``names``      every string that others parse: finalizers, annotations, phases, conditions
``validate``   the rules beyond the schema
``crds``       the CustomResourceDefinitions
``rbac``       what our controllers and users may do with them
"""
