"""The test kit that ships with the package: for our tests, and for those of driver authors.

``driver_conformance``   does a driver keep the contract? For authors of drivers
``faults``               what goes wrong between a client and a server, in process
``looks``                scenes for looks: is each field of what they fill compared with what there is?
``tiny_server``          a very small API server to try clients on
``crd_facts``            a CRD as a table of facts, for comparing it with another project's
``real_kubernetes``      a real etcd, kube-apiserver and kube-controller-manager on loopback

Nothing outside tests may import this package (import-linter sees to it).
"""
