"""MachineDeployments: the policy of Cluster API for the generic controller (``replicas.deployment``).

``template``  when two templates are the same, what their sets are called, and what needs no rollout
``status``    counts, phase and conditions
``policy``    all of it as one value
"""
