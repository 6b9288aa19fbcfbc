"""One KubewrightCluster: the endpoint of its API server, and whether machines may be made.

``seen``        everything that a decision reads, as one frozen value
``decide``      what comes next, and its status. Pure
``endpoints``   the calls to drivers about endpoints, beside the workers
``reconciler``  looks and acts; and which changes enqueue it
"""
