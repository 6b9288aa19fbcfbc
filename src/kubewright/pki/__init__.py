"""Keys and certificates, for servers and clusters; pure but for the randomness of keys.

``keys``          private keys, and the beginning of every certificate
``certificates``  an authority of our own, and what it signs for servers and clients
``clusters``      the authorities and keys of a workload cluster, as kubeadm knows them
"""
