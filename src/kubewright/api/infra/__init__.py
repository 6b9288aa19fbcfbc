"""``infrastructure.cluster.x-k8s.io/v1beta1``: what stands behind Clusters and Machines, made by our drivers.

``v1beta1``    the four kinds, with the fields that Cluster API's contract asks for
``names``      every string that others parse: finalizers, conditions, reasons of events
``validate``   the rules beyond the schema
``manifests``  the four CustomResourceDefinitions, and the roles of the provider and of users
"""
