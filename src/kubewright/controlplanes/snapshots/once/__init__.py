"""What taking and restoring have in common: an object that is carried out once.

Theory.      Both kinds get our finalizer, then their own steps, and are finished for good. What differs is a
             duty: what is looked at, decided and done.
Map.         ``decide``     what is seen of any such object, its first and last steps, its condition (pure)
             ``reconciler`` one pass: look, decide, act, report
"""
