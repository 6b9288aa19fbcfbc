"""The controller of ControlPlaneSnapshots: each is taken once, and its file goes with it if it says so.

Map.         ``decide``      what comes next, and what the status says (pure)
             ``act``         takes a snapshot, and lets one go
             ``reconciler``  looks; one pass; and which changes enqueue a snapshot
"""
