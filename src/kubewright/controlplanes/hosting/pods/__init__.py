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
             ``reading``     from the objects that there are to ``Running`` and ``Placement`` (pure)
             ``restoring``   the pods that put a snapshot into the volumes of an etcd (pure)
             ``replacing``   makes these pods, and sends the snapshot to them (``sending``)
             ``member``      what runs in them: the command ``restore-member``
             ``host``        the methods of ``Hosting`` and ``ReplacesData``
Source       nested.md A4, A8, A9, D5, D6.
"""
