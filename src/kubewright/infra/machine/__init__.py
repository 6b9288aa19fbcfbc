"""One KubewrightMachine: the VM of one Machine of Cluster API.

``seen``        everything that a decision reads, as one frozen value; what may be done, as a plan
``look``        makes that value from the caches
``decide``      how it gets its VM, how the VM goes, what its status says (pure)
``act``         one pass: performs a plan
``wiring``      which changes give it a pass
"""
