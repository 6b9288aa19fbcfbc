"""The certificates and kubeconfigs of a control plane: which there should be, and when each is renewed.

Theory.      For each component there is a list of the certificates and kubeconfigs that it needs, as values.
             What exists is read from Secrets. A pure function compares the two and plans what is made or
             renewed. The time is an argument of that function, so tests can go through a year.
Map.         ``sets``      which of them each component needs, and for which names (pure)
             ``look``      reads Secrets, each of their versions once
             ``act``       writes Secrets, with what ``pki.clusters`` makes
             ``keeper``    does all of this for the controllers of components: ``pki.keyring`` decides what is
                           made, what is waited for and what a user has to mend, ``pki.rotation`` how an
                           authority is replaced
Invariants.  A Secret is ours if its controlling owner is the control plane (for a user's kubeconfig: the
             ControlPlaneUser). Every other Secret was made by a user: it is read and never written.
             An authority of ours is replaced by ``pki.rotation`` alone.
"""
