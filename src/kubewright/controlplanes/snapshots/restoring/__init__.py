"""The controller of ControlPlaneRestores: replaces the data of a control plane by a snapshot, once.

Theory.      The file is verified before anything stops. Then an annotation on the control plane makes the
             controllers of its components stop them, each after the one that needs it. The host replaces the
             data, ``status.replacedAt`` is written, the annotation is removed, and the components start in
             their order. Which step is next follows from what exists: the annotation, the status, and a mark
             beside the data.
Map.         ``decide``     what comes next, and what the status says (pure)
             ``act``        verifies a file, stops a control plane, replaces its data, lets it start
             ``reconciler`` reads; one pass; and which changes enqueue a restore
"""
