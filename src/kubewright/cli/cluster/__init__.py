"""``kubewright cluster``: what a cluster of Cluster API consists of, and how to reach it.

``tree``      its objects as a tree, with what each of them waits for (pure)
``command``   the commands: they read the objects, and print the tree
"""
