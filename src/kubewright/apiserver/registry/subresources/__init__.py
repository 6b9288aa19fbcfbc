"""Subresources that are kinds of their own, and kinds that are only asked and never stored.

``scale``     autoscaling/v1 Scale of anything that has replicas
``eviction``  policy/v1 Eviction: a delete that asks the disruption budgets first
``binding``   v1 Binding: a pod gets its node
``tokens``    authentication/v1 TokenRequest: a service account proves itself
``reviews``   who am I, what may I do
"""
