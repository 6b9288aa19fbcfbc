"""The driver port: how a cloud is plugged in. Start with ``contract``; the rest is around it.

``contract``      the six verbs, the values they take, and what a driver may offer beyond them: all that a
                  provider's author implements
``errors``        the codes a driver may answer with, and how each wants to be retried
``registry``      finding drivers by name through entry points; several as one, by the name in a class
``answers``       what a driver answers and raises, as the types that the contract promises
``guard``         the wrapper around any driver: deadlines, slots, exceptions that are no ``DriverError``,
                  counts
``hot``           what of a class may change on a VM that runs; tags, of which others have put some there
``life``          what a controller does about one VM: ensured, looked for, deleted

``kubewright.testing.driver_conformance`` checks that a driver keeps the contract.
"""
