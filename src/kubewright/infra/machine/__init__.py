"""One KubewrightMachine: the VM of one Machine of Cluster API.

``observe``     everything that is seen of it, as one frozen picture
``look``        makes that picture from the caches
``steps``       the effects, and the plan that carries them
``creation``    decides how it gets its VM; ``deletion`` how the VM goes; ``decide`` which of the two
``status``      computes its status
``act``         performs a plan
``reconciler``  one pass, and who wakes it
"""
