"""The certificates and kubeconfigs of a control plane: which there should be, and when each is renewed.

Theory.      For each component there is a list of the certificates and kubeconfigs that it needs, as values.
             What exists is read from Secrets. A pure function compares the two and plans what is made or
             renewed. The time is an argument of that function, so tests can go through a year.
Map.         ``wanted``   the kinds of values: authorities, key pairs, leaf certificates, kubeconfigs
             ``sets``     which of them each component needs, and for which names (pure)
             ``found``    the content of one Secret
             ``look``     reads Secrets, each of their versions once
             ``decide``   what is made, what is waited for, what a user has to mend, and until when (pure)
             ``reasons``  why a certificate or a kubeconfig is renewed, or cannot be used (pure)
             ``rotation`` how an authority is replaced, one transition at a time (pure)
             ``act``      makes keys and certificates, and writes Secrets
             ``keeper``   does all of this for the controllers of components
Invariants.  A Secret is ours if its controlling owner is the control plane (for a user's kubeconfig: the
             ControlPlaneUser). Every other Secret was made by a user: it is read and never written.
             An authority of ours is replaced by ``rotation`` alone.
Source       nested.md A6, A7; S3-24, S3-25, S3-27 to S3-29.
"""
