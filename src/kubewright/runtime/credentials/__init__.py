"""Secrets with the certificates and kubeconfigs of a cluster, in the shapes of Cluster API's contract.

Theory.      Several worlds make and read the same Secrets: ``<cluster>-ca`` and the other pairs of a
             certificate and a key, and ``<cluster>-kubeconfig``. What is in one becomes a value that says
             what is wrong with it, and until when it is good; a pure function says when it is made anew.
Map.         ``values``    what is in the Secrets; when a kubeconfig is made anew (pure)
             ``contents``  reads and makes what is in them
Invariants.  A private key is in no ``repr`` and no message.
Source       capi.md §6.3, §9.3; nested.md A6.
"""
