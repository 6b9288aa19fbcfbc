"""Snapshots of the data of control planes, and restores from them (decision 0036).

Theory.      A snapshot is one file: what the API of an etcd streams, or a copy of the data file of our own
             API server. The file is written to a store, and its hash into the status of the object. A restore
             verifies the file, stops all components in order, lets the host replace the data, and lets the
             components start again.
Map.         ``files``     the hash of a file, and what is verified of it
             ``stores``    the interface of all stores; which one a spec names; the store that is a folder
             ``buckets``   the store that is a bucket
             ``credentials`` the certificates with which this program is a client of an etcd
             ``streams``   streams the data of a member of an etcd into a file
             ``once``      what taking and restoring have in common: an object that is carried out once
             ``taking``    the controller of ControlPlaneSnapshots
             ``schedules`` the controller of ControlPlaneSnapshotSchedules
             ``restoring`` the controller of ControlPlaneRestores
Source       nested.md C5, R-08.
"""
