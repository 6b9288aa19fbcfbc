"""Snapshots of the data of control planes, and their way back (decision 0036).

Theory.      A snapshot is one file: of an etcd what its API streams, of our own API server a copy of its
             data file. It is written to a store, and the object keeps its hash. A restore verifies the file,
             stops all components in order, lets the host put the data in place, and lets them start again.
Map.         ``files``      a snapshot as a file: its hash, and what must be true of it
             ``stores``     where files are kept
             ``sources``    where the data comes from
             ``taking``     the controller of ControlPlaneSnapshots
             ``schedules``  the controller of ControlPlaneSnapshotSchedules
             ``restoring``  the controller of ControlPlaneRestores
Source       nested.md C5, R-08.
"""
