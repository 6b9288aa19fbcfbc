"""What a component is made from: a set of templates, filled in and changed as its spec says.

Theory.      Sets of templates are data files in the layout that Cluster API Provider Nested planned. A file
             for each channel names the version of each package; a folder for each package and version has the
             manifests. A package is a component. A component names a version or a channel. A folder may serve
             all patch releases of a minor version (``1.36``), or of several minor versions (``1.35-1.36``).
Map.         ``catalog`` reads the files
             ``choice``  which version a component gets, and whether it may have it now (pure)
             ``render``  fills in the templates, and sets what the spec says (pure)
             ``patches`` applies a user's patches (pure)
             ``sets``    the files that this package brings
"""
