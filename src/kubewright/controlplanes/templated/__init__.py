"""Control planes that name a template: their components are made from it.

Theory.      A NestedControlPlaneTemplate holds the specs of components. A control plane that names one gets
             the components that it lacks: this controller creates them, with the control plane as owner, and
             writes the references. From then on they are objects as if a user had written them, so each is
             changed on its own, and a change of the template changes none that is there.
Map.         ``decide``      what is made (pure)
             ``reconciler``  looks; performs; and which changes enqueue a control plane
Source       seed 003, "In-tree": a Template whose controller creates the components; S3-16.
"""
