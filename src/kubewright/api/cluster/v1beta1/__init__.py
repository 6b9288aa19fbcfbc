"""The kinds of ``cluster.x-k8s.io/v1beta1``, field for field as upstream serves them.

Map.         ``condition``
"""
