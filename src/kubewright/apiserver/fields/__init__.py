"""Who manages which fields of an object, and server-side apply. Pure; nothing here knows the store.

Map.    paths      sets of paths, and the entries of ``managedFields`` in which they are written (FieldsV1)
        shapes     values under a schema: what is managed part by part; difference, merging, Go's form
        ownership  who manages what after a create, an update, a patch or an apply; conflicts
Theory. An apply names the fields that its manager wants. They are merged into the object; a field that the
        manager applied before, names no more and that no other manager has, is removed; a field that another
        manager has, and that would change, is a conflict. Any other write makes its manager the only one of
        the fields that it changes. Lists and maps merge as the schema says: see docs/decisions/0028.
Source  Kubernetes' server-side apply as kube-apiserver 1.36 does it, which tests/conformance compares.
Called by ``registry.field_managers``.
"""
