"""Where the programs of components run: one contract, and an implementation for each kind of place.

Theory.      The controllers of components decide what should run, in which order, and which instance is
             replaced next. A host starts, probes and ends instances: pods of a StatefulSet, processes of this
             machine, or an API server inside this process. Every host is given the same rendered manifests
             and answers with the same values, so controllers do not know which kind of host they have.
Map.         ``contract``  the methods of a host and their values; which host runs which version
             ``member_data`` puts restored data in the place of that of an etcd member
             ``pods``      the host that makes StatefulSets on a Kubernetes
             ``processes`` the host that starts programs on this machine
Continues    in ``compose.task_hosting``, the host for our own API server inside this process.
"""
