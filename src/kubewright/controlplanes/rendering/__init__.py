"""From a set of templates and the spec of a component to the manifests of what is to run. Pure.

Theory.      The same manifests serve all hosts: a kubelet makes containers from the pod template of the
             StatefulSet, and our own host makes processes from it. So a patch or a flag of a user has the
             same effect in both.
Map.         ``variables`` fills in the placeholders of a template
             ``flags``     sets, adds and removes flags of a program
             ``files``     adds a user's files to the pod
             ``patches``   applies a user's patches to the manifests
             ``form``      whether a patched manifest still has the form that hosts read
             ``render``    all of it, in order
"""
