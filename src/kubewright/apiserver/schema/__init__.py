"""Schemas: validation, pruning and defaults of objects.

Map.    node        a schema as a tree, and as JSON Schema
        walk        prunes, defaults, finds what is unknown or a duplicate; the errors of Go's decoder
        formats     the formats that kube-apiserver enforces; ``patterns`` Go's regular expressions
        causes      a validator's errors as kube-apiserver's messages
        compiled    all of it as ``registry.kind.Schema``
        builtin     of a built-in definition; ``protobuf`` decodes by the same definitions
        structural  of a CustomResourceDefinition: its rules, and what an update may leave as it was
"""
