"""Who may do what: role-based access control, as one pure function over what roles and bindings say.

Theory.      A request is ``Attributes``. A ``Policy`` is made from the roles and bindings there are and
             answers ``decide(attributes)``: allowed by which binding, or not, and what was missing.
             Rights only add up: there is no rule that takes one away.
Map.    attributes      what a request asks for, and the sentence that refuses it
        rules           what one rule covers; rules against rules
        policy          roles and bindings -> decisions
        escalation      nobody grants, by a role or a binding, what he does not have
        defaults        the roles and bindings of every cluster (``default_rules``: what they allow)
        reconciliation  a default and what is stored -> what to store
Invariants.  No I/O, no clock; nothing here knows the store or HTTP. ``registry.policies`` keeps the
             policy up to date, ``http.authz`` asks it.
Source       Kubernetes' RBAC; sentences observed on v1.36.
"""
