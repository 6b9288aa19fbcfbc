"""One KubewrightCluster: the endpoint of its API server, and whether machines may be made.

``observe``     everything that is seen of it, as one frozen picture
``decide``      what comes next, and its status. Pure
``endpoints``   the calls to drivers about endpoints, beside the workers
``reconciler``  look, act, and who wakes it
"""
