"""``kubewright watch``: the demo's live table for the machines of one's own namespace, with the last events.

Theory.      The demo's stage draws a table on a terminal and prints a line for each thing that happens, in a
             pipe the lines alone. Here informers of both APIs that have machines feed it instead.
Files        ``picture``  what is there now, as the stage shows it
             ``command``  watches, and shows
"""
