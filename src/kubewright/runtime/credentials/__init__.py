"""Secrets with the certificates and kubeconfigs of a cluster, in the shapes of Cluster API's contract.

Theory.      Several worlds make and read the same Secrets: ``<cluster>-ca`` and the other pairs of a
             certificate and a key, and ``<cluster>-kubeconfig``. What is in one becomes a value that says
             what is wrong with it, and until when it is good; ``pki.keyring`` decides when it is made anew.
Map.         ``values``    what is in the Secrets, and whose they are (pure)
             ``contents``  reads what is in them, and makes keys beside the event loop
Invariants.  A private key is in no ``repr`` and no message.
"""
