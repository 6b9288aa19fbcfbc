"""The API ``capacity.kubewright.dev``: room in a cluster that is kept free by placeholders.

Map.         ``v1alpha1`` (CapacityReserve, and all words that other programs read), ``validate`` (its rules),
             ``manifests`` (its CustomResourceDefinition, and who may do what).
"""
