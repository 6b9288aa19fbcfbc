"""What is done to nodes, whichever API the machine behind them belongs to. What differs is passed in.

``health``   is a node well, and did its conditions change?
``marks``    cordon, taints, annotations, conditions, and what an API wants on its nodes: as patches
``drain``    which pods must leave, in which order, and asking them to
"""
