"""Keys and certificates, for servers and clusters; pure but for the randomness of keys.

``credentials``   what is wanted, what is held, and why one is not good for the other (pure)
``keyring``       what is made, renewed, waited for, or for a user to mend, and when to look again (pure)
``rotation``      how an authority is replaced, one transition at a time (pure)
``clusters``      makes the authorities, key pairs, certificates and kubeconfigs of a cluster
``certificates``  authorities of our own servers, and what any authority signs for servers and clients
``requests``      requests for certificates: what one asks for, and the certificate that answers it
``facts``         what a certificate says, who signed it, and which names one can have (pure)
``keys``          private keys, and what every certificate begins with
``tls``           the TLS contexts of this program
"""
