"""``kubewright run``: the controllers on real clusters.

Files        ``switches``  its switches and their help, quick to import; also from a YAML file (``--config``)
             ``mcm``       those of its switches that MCM's programs have, as a table
             ``command``   makes options of the switches, and runs
"""
