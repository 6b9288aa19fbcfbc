"""Role-based access control (RBAC): which user may do what, decided from the stored roles and bindings.

Theory.      A request is ``Attributes``. A ``Policy`` is made from all stored roles and bindings. Its
             ``decide(attributes)`` says whether the request is allowed, and why: by which binding, or which
             roles that bindings name do not exist. Rules only grant: no rule denies.
Map.    attributes      what a request asks for, and the message of its refusal (403 Forbidden)
        rules           what one rule allows, and whether it covers another rule
        policy          from roles and bindings to decisions
        escalation      a user grants, by a role or a binding, only rights that this user has
        defaults        the roles and bindings of every cluster
        reconciliation  from a default and the stored object to what the server stores
Invariants.  No I/O, no clock; nothing here knows the store or HTTP. ``registry.policies`` keeps the
             policy up to date, ``http.authz`` asks it.
Source       Kubernetes' RBAC; its messages as observed on v1.36.
"""
