"""The controller that makes the components of control planes that name a template.

Theory.      A NestedControlPlaneTemplate holds the specs of components. This controller creates the
             components that a control plane lacks, with the control plane as owner, and writes the references
             into its spec. From then on they are like components that a user has written: each is changed by
             itself, and a change of the template changes no component that exists.
Map.         ``decide``     which components are created (pure)
             ``wiring`` reads; performs; and which changes enqueue a control plane
Source       S3-16.
"""
