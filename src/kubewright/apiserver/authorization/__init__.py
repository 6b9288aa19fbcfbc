"""Role-based access control (RBAC): which user may do what, decided from the stored roles and bindings.

Theory.      A request is ``Attributes``. A ``Policy`` is made from all stored roles and bindings. Its
             ``decide(attributes)`` says whether the request is allowed, and why: by which binding, or which
             roles that bindings name do not exist. Rules only grant: no rule denies.
Map.    policy    what a request asks for; rules, roles and bindings to decisions; what a user may grant
        nodes     what a node may do, and what it may write into its objects
        defaults  the roles and bindings of every cluster, and how those that exist are completed
Invariants.  No I/O, no clock; nothing here knows the store or HTTP. ``registry.policies`` keeps the
             policy up to date, ``http.app`` asks it.
Source       Kubernetes' RBAC; its messages as observed on v1.36.
"""
