"""``kubewright run``: the controllers on real clusters.

Files        ``switches``     its switches and their help, quick to import
             ``mcm``          those of its switches that MCM's programs have, as a table
             ``config_file``  the switches from a YAML file (``--config``)
             ``command``      makes options of the switches, and runs
"""
