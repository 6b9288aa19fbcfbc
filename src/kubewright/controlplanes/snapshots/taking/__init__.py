"""The controller of ControlPlaneSnapshots: takes each once; deletes its file where the spec says so.

Map.         ``decide``     what comes next, and what the status says (pure)
             ``act``        takes a snapshot, and deletes its file
             ``reconciler`` reads; one pass; and which changes enqueue a snapshot
"""
