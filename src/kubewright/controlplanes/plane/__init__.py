"""The controller of NestedControlPlanes: adopts the components, sums up their status, deletes them in order.

Theory.      The controllers of the components run the programs. This one makes the components a whole: it
             becomes their controlling owner, by which they find each other; it sums up their status in the
             conditions and fields of Cluster API's contract; and it deletes them in order.
Map.         ``seen``       everything that a decision reads, as one frozen value
             ``rest``       whether the control plane sleeps now, and until when (pure)
             ``decide``     what comes next (pure)
             ``status``     what the status says (pure)
             ``pace``       how soon it is written (pure)
             ``act``        performs a plan, and writes the status
             ``reconciler`` reads; one pass; and which changes enqueue a control plane
Source       seed 003; nested.md A4, A5, A9 to A11; S3-12 to S3-14, S3-30.
"""
