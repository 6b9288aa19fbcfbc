"""MachineSets: the policy of Cluster API for the generic controller of sets (``replicas.set``).

``around``     what a decision looks at besides the set and its machines, and whether machines may be made
``member``     a Machine as its set sees it, which one is deleted first, and what a set changes on it
``clones``     what is made for a machine: two clones of templates, and the Machine itself
``policy``     all of it as one policy, and what the set's status says
"""
