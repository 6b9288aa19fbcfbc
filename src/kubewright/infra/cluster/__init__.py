"""One KubewrightCluster: the endpoint of its API server, and whether machines may be made.

``seen``        everything that a decision reads, as one frozen value; what may be done, as a plan
``look``        makes that value from the caches
``decide``      what comes next, and its status (pure)
``act``         one pass: performs a plan
``endpoints``   the calls to drivers about endpoints, beside the workers
``wiring``      which changes give it a pass
"""
