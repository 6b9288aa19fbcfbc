"""CEL: the language of the rules in definitions, as kube-apiserver 1.36 knows it.

Map.    types      types and what Python lacks of values; ``values`` equality, order, conversions, times
        syntax     from a text to a tree, with macros expanded
        functions  CEL's standard functions; ``libraries`` those of Kubernetes, ``objects`` its own values
        check      types of all parts of a tree
        costs      what an expression can cost
        evaluate   a tree as a Python function; ``calls`` its calls, and what they have cost
        declared   the types that a schema declares
        rules      ``x-kubernetes-validations``: of a definition, and of an object
"""
