"""Who manages which fields of an object, and server-side apply. Pure; nothing here knows the store.

Map.    paths     sets of paths, and their notation in ``managedFields`` (FieldsV1)
        shapes    what a schema says about a value: what is managed part by part, and the paths in it
        changes   the difference of two values
        merging   an applied value merged into a live one; values without some paths
        gotypes   the form of built-in objects in Go, in which kube-apiserver compares them
        managers  the entries of ``managedFields``
        updates   who manages what after a create, an update or a patch
        applying  the object after an apply and who manages what then; conflicts
Theory. An apply names the fields that its manager wants. They are merged into the object; a field that the
        manager applied before, names no more and that no other manager has, is removed; a field that another
        manager has, and that would change, is a conflict. Any other write makes its manager the only one of
        the fields that it changes. Lists and maps merge as the schema says: see docs/decisions/0028.
Source  Kubernetes' server-side apply as kube-apiserver 1.36 does it, which tests/conformance compares.
Called by ``registry.field_managers``.
"""
