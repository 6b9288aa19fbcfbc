"""The test kit that ships with the package: for our tests, and for those of driver authors.

``judge``   a real etcd, kube-apiserver and kube-controller-manager on loopback

Nothing outside tests may import this package (import-linter sees to it).
"""
