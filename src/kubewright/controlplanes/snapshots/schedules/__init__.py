"""The controller of ControlPlaneSnapshotSchedules: creates snapshots at their times, and deletes the oldest.

Map.         ``decide``      what is due, and what is too many (pure)
             ``reconciler``  looks; one pass; and which changes enqueue a schedule
"""
