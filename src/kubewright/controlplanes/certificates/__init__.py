"""The certificates and kubeconfigs of a control plane: which there should be, and when each is made anew.

Theory.      Every component says what it needs as values; what is there is read from Secrets; a pure function
             compares both. So who asks (the controller of a component, or a foreign provisioner's user) does
             not matter, and a clock that is a number can show a year.
Map.         ``wanted``   authorities, key pairs, leaf certificates, kubeconfigs: what there should be
             ``sets``     which of them each component needs, and for which names (pure)
             ``found``    what is in a Secret
             ``look``     reads Secrets, each of their versions once
             ``rotation`` how an authority is replaced, turn by turn (pure)
             ``decide``   what is made, what is waited for, what a user has to mend, and until when (pure)
             ``reasons``  why a certificate or a kubeconfig is made anew, or is of no use (pure)
             ``act``      makes keys and writes Secrets
             ``keeper``   all of it, for the controllers of components
Invariants.  A Secret that its controlling owner does not show to be ours is a user's: it is read, and never
             written. An authority of ours is replaced by ``rotation`` alone.
Source       nested.md A6, A7; S3-24, S3-25, S3-27 to S3-29.
"""
