"""A program that balances the TCP connections to one address over several instances of a server.

Theory.      It is started as a process of its own (``python -m kubewright.processes.balancer``), so it serves
             while no supervisor runs, and it has no state: the addresses of all instances that there may ever
             be are its arguments, and it asks each of them whether it is ready. So an instance joins by
             becoming ready and leaves by ceasing to be, without a message to the balancer. Where nothing can
             say before which addresses there will be, a file says which there are. TLS is passed
             through: it holds no key and reads no request.
             A connection is opened to an instance when the client has sent its first message, and may go to
             another instance until the first answer: what was sent until then is a TLS ClientHello, which
             changes nothing.
Invariants.  Only the standard library and ``base`` are imported: an interpreter without packages is small and
             starts fast. The number of connections is bounded. Every wait but that between two messages of an
             open connection has a deadline, also that for the second direction of a connection to end.
Map.         ``readiness``  asks each instance periodically whether it is ready, and reads a file of them
             ``relay``      chooses an instance, opens connections, and copies bytes in both directions
             ``__main__``   arguments, the listening socket, the end
Source       decision 0032.
Called by    the host of processes of ``controlplanes`` and ``providers.qemu``, as a program.
"""
