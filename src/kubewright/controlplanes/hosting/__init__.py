"""Where the programs of components run: one contract, and a way to fulfil it for each kind of place.

Theory.      Controllers of components decide what should run, in which order, and which instance is replaced
             next. How an instance is started and asked differs: a pod of a StatefulSet, a process of this
             machine, an API server inside this process. All of them are given the same rendered manifests
             and answer with the same values, so that no controller knows which one it has.
Map.         ``contract``   the verbs and their values
             ``hosts``      which of them runs which version
             ``pods``       StatefulSets and their pods, on a Kubernetes
             ``processes``  programs of this machine
"""
