"""Keys and certificates, for servers and clusters; pure but for the randomness of keys.

``keys``          private keys, and the beginning of every certificate
``certificates``  authorities of our own servers, and what any authority signs for servers and clients
``clusters``      the authorities and key pairs of a workload cluster, in the forms that kubeadm reads
"""
