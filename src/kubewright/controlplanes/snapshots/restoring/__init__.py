"""The controller of ControlPlaneRestores: a snapshot in the place of the data of a control plane, once.

Theory.      The file is verified before anything stops. Then an annotation on the control plane makes the
             controllers of its components stop them, each after the one that needs it; the host puts the data
             in place; the object says so; the annotation goes, and the components start in their order. Each
             step is read from what is there: annotation, status, and a mark beside the data.
Map.         ``decide``      what comes next, and what the status says (pure)
             ``act``         verifies a file, stops and releases a control plane, replaces its data
             ``reconciler``  looks; one pass; and which changes enqueue a restore
"""
