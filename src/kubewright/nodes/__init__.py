"""What is done to nodes, whichever API the machine behind them belongs to.

``health``   is a node well, and did its conditions change?
``marks``    cordon, taints, labels, conditions, the node template: as patches
``drain``    which pods must leave, in which order, and asking them to
"""
