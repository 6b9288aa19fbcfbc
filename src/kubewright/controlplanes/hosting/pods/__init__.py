"""Components in pods: a StatefulSet each, with its Services and volume claims, on the control cluster.

Theory.      The API server is told what should be; a kube-controller-manager and kubelets make it so, and
             what became of it is read from StatefulSets, Services and Pods. A StatefulSet has the update
             strategy ``OnDelete``: it replaces no pod when its template changes, so ``replace`` is the
             deletion of one pod.
Invariants.  Only what the component object controls is written or deleted; an object of the same name that
             it does not control is left alone, and told. Writes are creations, or merge patches with uid and
             version. Claims are deleted only by ``remove`` and by a smaller number of instances.
Map.         ``kinds``        what is looked at
             ``objects``      from a workload to the objects that there should be (pure)
             ``differences``  what to do with an object that there is or is not (pure)
             ``reading``      from the objects that there are to ``Running`` and ``Placement`` (pure)
             ``host``         the verbs of the contract
Source       nested.md A4, A8, A9, D5, D6.
"""
