"""MachineSets: the policy of Cluster API for the generic controller of sets (``replicas.set``).

``around``     what a decision looks at besides the set and its machines; ``look`` reads it
``preflight``  whether the control plane lets machines be made
``member``     a Machine as its set sees it, and which one is deleted first
``clones``     what is made for a machine: two clones of templates, and the Machine itself
``propagation`` what a set changes on its machines without a rollout
``status``     what the set's status says
``policy``     all of it as one value
"""
