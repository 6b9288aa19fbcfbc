"""Kinds, and what can be done to their objects.

``kind``       what the server knows about a kind, its objects to bytes and back; the catalog of all; the
               target and the options of a request
``builtin``    the built-in kinds          ``custom``  those of CRDs      ``definitions``  what a CRD must be
``reading``    get, list, watch, and which objects a selector selects
``writing``    create, update, patch and delete: the effects         ``strategy``  their pure steps
``admission``  conditions that depend on other objects; CRDs take effect
``field_managers``  ``managedFields`` of a write
``policies``   the current policy, and guards of writes              ``refusals``  kube-apiserver's errors
``versions``  an object of one version in another    ``reviews``   conversion webhooks: what they are asked
``subresources``  scale, eviction, binding, reviews                  ``tokens``    of accounts and of machines
                  that join
"""
