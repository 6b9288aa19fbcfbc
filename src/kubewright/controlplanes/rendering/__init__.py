"""From a set of templates and a component to the manifests of what is to run. Pure.

Theory.      One manifest serves both ways to run: a StatefulSet, from whose pod template a kubelet makes
             containers, and our supervisor processes. So a patch or a flag of a user works in both.
Map.         ``variables``  fills in what a template leaves open
             ``flags``      sets, adds and removes flags of a program
             ``files``      adds a user's files to the pod
             ``patches``    applies a user's changes to the manifests
             ``render``     all of it, in order
"""
