"""Which set of templates a component is made from.

Theory.      Sets of templates are data files in the layout that Cluster API Provider Nested meant to have: a
             file for each channel says which version of which package it stands for, and a folder for each
             package and version has the manifests. A component names a version or a channel; a folder may
             stand for all patch releases of a minor version (``1.36``), or of several (``1.35-1.36``).
Map.         ``catalog``  reads the files
             ``choice``   which version a component gets (pure)
             ``sets``     our own files
Source       seed 003 (sets of default templates, picked by version or channel); nested.md A3.
"""
