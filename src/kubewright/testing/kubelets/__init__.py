"""A double of what runs pods: a kubelet that starts the very programs as processes of this machine.

Theory.      Neither the embedded server nor the real kube-apiserver of the tests has nodes. Here one node
             takes every pod of a component, mounts Secrets, ConfigMaps and claims as files and folders, runs
             the container's command under ``processes.Supervisor``, and says in the pod's status what
             became of it. There is no container: a path of the container is written as the path of the folder
             that stands for it. Where there is no kube-controller-manager, ``statefulsets`` makes the pods.
Invariants.  What a double does, a real kubelet or controller manager would do too. What it cannot do it
             refuses with an error, so that no test passes by what is left out.
Map.         ``programs``      from a pod to a program (pure)
             ``sequence``      the program of a pod that is done once
             ``statuses``      from what a supervisor says to the status of a pod (pure)
             ``hosts``         addresses and names of pods
             ``kubelet``       one node
             ``statefulsets``  makes the pods of StatefulSets, for a server without a controller manager
Called by    the conformance suite of hosts.
"""
