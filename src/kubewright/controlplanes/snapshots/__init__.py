"""Snapshots of the data of control planes, and restores from them (decision 0036).

Theory.      A snapshot is one file: what the API of an etcd streams, or a copy of the data file of our own
             API server. The file is written to a store, and its hash into the status of the object. A restore
             verifies the file, stops all components in order, lets the host replace the data, and lets the
             components start again.
Map.         ``taking``    what comes next for a ControlPlaneSnapshot, and what its status says (pure)
             ``restoring`` the same for a ControlPlaneRestore (pure)
             ``once``      what both have in common: they are carried out once (pure)
             ``schedules`` what is due for a ControlPlaneSnapshotSchedule (pure)
             ``act``       the reconcilers of the three, and what performs their steps
             ``wiring``    which changes enqueue them
             ``stores``    where the files are kept: a folder, or a bucket
             ``files``     the hash of a file, and what is verified of it
"""
