"""The controller of NestedControlPlanes: adopts the components, sums up their status, deletes them in order.

Theory.      The controllers of the components run the programs. This one makes the components a whole: it
             becomes their controlling owner, by which they find each other; it sums up their status in the
             conditions and fields of Cluster API's contract; and it deletes them in order.
Map.         ``seen``       everything that a decision reads, as one frozen value (pure)
             ``decide``     what comes next (pure)
             ``status``     what the status says, and how soon it is written (pure)
             ``act``        one pass on the kernel: reads, performs a plan, and writes the status
             ``wiring``     which changes enqueue a control plane
"""
