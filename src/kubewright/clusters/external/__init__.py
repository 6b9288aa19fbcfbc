"""Provider objects as the core sees them: what the contracts of Cluster API say about them.

``contract``  which version of a provider's kind to use, from the labels of its CRD
``fields``    where an object has what the core reads, by contract
``object``    one referenced object: whether it was found, who controls it, whether it is ready; its claim
``mirroring`` the condition of the owner about the object
``cloning``   objects that are made from templates

The mechanism (watches, caches, wake-ups) is ``runtime.references``.
"""
