"""``kubewright cluster``: what a cluster of Cluster API consists of, and how to reach it.

``reading``   its objects, from the server
``tree``      them as a tree, with what each of them waits for
``page``      the tree as text
``command``   the commands
"""
