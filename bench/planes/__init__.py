"""What a nested control plane costs: one until its kubeconfig works, asleep, awake, changed; many at once.

Theory.      ``kubewright up`` in a process of its own, driven from outside, as by a user: the four objects
             are written, and the kubeconfig is used as soon as it is there. In channel ``embedded`` a control
             plane is tasks of that process, so its memory and CPU are the growth of the process. In the other
             channel it is programs of their own: their memory is their proportional share (PSS), because they
             share their binaries, and the growth of ``kubewright`` itself is shown apart.
Scenario.    First one control plane after another, alone: created, asleep, awake, its authorities replaced,
             its version upgraded; embedded, and of real programs with each number of replicas. Then many at
             once: the embedded ones, and beside them, while these run, those of real programs.
Counting.    A control plane is usable when the default namespace is read with its kubeconfig. Many are asked
             for at once, as with one ``kubectl apply``, and ``kubewright`` itself starts two programs at a
             time; the seconds are those until the last one is usable.
Bounds.      Of real control planes only as many are asked for as the memory holds, by what one of them was
             measured to need. Each wait ends when nothing has changed for minutes, or after a limit; then
             what has been measured until then is printed, with what was waited for.
Files        ``scenario``  the phases that are measured
             ``plane``     a control plane as its user handles it
             ``changes``   what a rotation and an upgrade cost
             ``waiting``   waits that say what they wait for
             ``memory``    memory of processes, and how many control planes it holds
             ``table``     the result, beside the budgets
"""
