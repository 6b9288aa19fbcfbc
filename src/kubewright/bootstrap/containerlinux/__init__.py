"""Container Linux Config, the notation in which users add to an Ignition config, as Ignition 2.3.

Theory.      The transpiler that Cluster API uses is the measure: what it makes of a text is made here, what
             it refuses is refused, and what it remarks on is refused where the text is to be ``strict``.
Map.         ``notation``   the fields and their types; a text as values
             ``options``    the flags of etcd and flannel, by version
             ``programs``   etcd, flannel, docker, the updates and reboots of a machine, as units and files
             ``transpile``  all else, and the whole
             ``rules``      what Ignition takes
Source       container-linux-config-transpiler v0.9.4, which judges (tests/conformance).
"""
