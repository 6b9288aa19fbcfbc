"""``kubewright watch``: a live table of the machines of a namespace, with their last events.

Theory.      The display is that of ``kubewright demo`` (``cli.demo.stage``): a table on a terminal, and a
             line for each event; in a pipe only the lines. Here informers of the user's own objects feed it,
             of both APIs that have machines.
Files        ``command``  machines and nodes as rows of the table, events as lines; the informers that
                          feed both, and the loop that shows them
"""
