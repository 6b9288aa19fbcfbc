"""Keys and certificates, for servers and clusters; pure but for the randomness of keys.

``keys``          private keys, and what every certificate begins with
``certificates``  authorities of our own servers, and what any authority signs for servers and clients
``clusters``      the authorities and key pairs of a workload cluster, in the forms that kubeadm reads
"""
