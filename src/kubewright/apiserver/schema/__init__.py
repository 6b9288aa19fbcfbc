"""Schemas: validation, pruning and defaults of objects.

Map.    notation    how ``builtin.json`` reads; written by tools/builtin_schemas.py
        facts       defaults and enums of built-in kinds that their OpenAPI lacks
        node        a schema as a tree; ``walk`` prunes, defaults, finds what is unknown or a duplicate
        json_schema  OpenAPI to JSON Schema; ``formats`` what JSON Schema lacks
        causes      a validator's errors as kube-apiserver's messages; ``decode`` those of Go's decoder
        ratcheting  what an update may leave as it was, though the schema forbids it now
        compiled    all of it as ``registry.kind.Schema``
        builtin     from a built-in definition; ``structural`` from a CustomResourceDefinition
"""
