"""Schemas: what an object may look like, and what happens to one that does not.

Map.    notation    how ``builtin.json`` reads; written by tools/builtin_schemas.py
        facts       defaults and allowed values of built-in kinds that no OpenAPI tells
        node        a schema as a tree; ``walk`` prunes, defaults, finds what is unknown or a duplicate
        json_schema  OpenAPI to JSON Schema; ``formats`` what JSON Schema lacks
        causes      a validator's errors in kube-apiserver's words; ``decode`` Go's decoder's words
        compiled    all of it as ``registry.kind.Schema``
        builtin     from a built-in definition; ``structural`` from a CustomResourceDefinition
"""
