"""What is done to nodes, whichever API the machine behind them belongs to. What differs is passed in.

``health``   is a node well, and did its conditions change?
``marks``    patches that cordon, taint, annotate, set conditions, and keep what an API wants on its nodes
``drain``    which pods must leave, in which order, and asking them to
"""
