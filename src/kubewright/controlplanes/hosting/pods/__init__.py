"""The host that runs components in pods: a StatefulSet each, with Services and volume claims.

Theory.      This host writes StatefulSets and Services into the control cluster; the kube-controller-manager
             and the kubelets of the control cluster make pods of them. What became of it is read from
             StatefulSets, Services and Pods. A StatefulSet has the update strategy ``OnDelete``, so a change
             of its template replaces no pod; ``replace`` deletes one pod.
Invariants.  Only objects that the component object controls are written or deleted; another object of the
             same name is left alone, and reported. Writes are creations, or merge patches with uid and
             version. Volume claims are deleted only by ``remove`` and when the number of instances becomes
             smaller.
Map.         ``objects``     the kinds of objects, what there should be, and what to do with each (pure)
             ``reading``     from the objects that there are to ``Running`` and ``WorkloadAddresses`` (pure)
             ``host``        the methods of ``Hosting`` and ``ReplacesData``
             ``restore_pods`` the pods that replace data as manifests, and what their status says (pure)
             ``restoring``   makes these pods and sends them the snapshot; and what runs in one
"""
