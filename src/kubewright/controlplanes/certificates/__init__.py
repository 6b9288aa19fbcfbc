"""The certificates and kubeconfigs of a control plane: which there should be, and when each is made anew.

Theory.      Every component says what it needs as values; what is there is read from Secrets; a pure function
             compares both. So who asks (the controller of a component, or a foreign provisioner's user) does
             not matter, and a clock that is a number can show a year.
Map.         ``wanted``   authorities, key pairs, leaf certificates, kubeconfigs: what there should be
"""
