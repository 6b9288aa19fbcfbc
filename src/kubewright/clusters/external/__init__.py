"""Provider objects as the core sees them: what the contracts of Cluster API say about them.

``fields``    where an object has what the core reads, by contract, and which version of its kind to use
``object``    one referenced object: whether it was found, who controls it, whether it is ready; its claim;
              which changes of it matter; objects that are made from templates
``mirroring`` the condition of the owner about the object

The mechanism (watches, caches, wake-ups) is ``runtime.references``.
"""
