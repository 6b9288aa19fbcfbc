"""One KubewrightMachine: the VM of one Machine of Cluster API.

``seen``        everything that a decision reads, as one frozen value
``look``        makes that value from the caches
``steps``       the effects, and the plan that carries them
``creation``    decides how it gets its VM; ``deletion`` how the VM goes; ``decide`` which of the two
``status``      computes its status
``act``         performs a plan
``reconciler``  one pass, and which changes enqueue it
"""
