"""``cluster.x-k8s.io/v1beta1``: clusters and their machines, as Cluster API v1.7.1 serves them.

``v1beta1``      the kinds, field for field
``names``        every string on objects that others parse: labels, annotations, finalizers
``conditions``   what controllers report: phases, reasons, and how conditions are made and summarized
``validate``     what an omitted field means; the rules beyond the schema
``manifests``    the CustomResourceDefinitions, and the roles of the core and of users
"""
