"""Subresources that are kinds of their own, and reviews, which are never stored.

``scale``     autoscaling/v1 Scale of anything that has replicas
``eviction``  policy/v1 Eviction: a delete that asks the disruption budgets first
``binding``   v1 Binding: a scheduler assigns a pod to a node
``tokens``    authentication/v1 TokenRequest: tokens of service accounts
``reviews``   SubjectAccessReview, TokenReview and the like
"""
