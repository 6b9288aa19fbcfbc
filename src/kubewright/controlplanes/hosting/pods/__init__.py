"""The host that runs components in pods: a StatefulSet each, with Services and volume claims.

Theory.      This host writes StatefulSets and Services into the control cluster; the kube-controller-manager
             and the kubelets of the control cluster make pods of them. What became of it is read from
             StatefulSets, Services and Pods. A StatefulSet has the update strategy ``OnDelete``, so a change
             of its template replaces no pod; ``replace`` deletes one pod.
Invariants.  Only objects that the component object controls are written or deleted; another object of the
             same name is left alone, and reported. Writes are creations, or merge patches with uid and
             version. Volume claims are deleted only by ``remove`` and when the number of instances becomes
             smaller.
Map.         ``kinds``       the kinds of objects, as far as we read them
             ``objects``     from a workload to the objects that there should be (pure)
             ``differences`` what to do with one object (pure)
             ``reading``     from the objects that there are to ``Running`` and ``WorkloadAddresses`` (pure)
             ``restoring``   replaces the data of an etcd: makes a pod for each member, and sends the snapshot
             ``restore_pods`` these pods as manifests, and what their status says (pure)
             ``sending``     sends a snapshot to a pod
             ``restore_member`` what runs in such a pod: the command ``restore-member``
             ``host``        the methods of ``Hosting`` and ``ReplacesData``
Source       nested.md A4, A8, A9, D5, D6.
"""
