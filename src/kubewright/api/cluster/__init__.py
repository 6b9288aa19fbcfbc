"""``cluster.x-k8s.io/v1beta1``: clusters and their machines, as Cluster API v1.7.1 serves them.

``v1beta1``      the kinds, field for field (capi.md §2)
``names``        every string on objects that others parse: labels, annotations, finalizers (capi.md §4)
``reasons``      what controllers report: phases, conditions, reasons of events (capi.md §4.4, §4.6)
``conditions``   how their conditions are made, set and summarized (capi.md §4.5)
``crds``         the CustomResourceDefinitions
"""
