"""What taking and restoring have in common: an object that is carried out once, as a Job is.

Theory.      Both kinds get our finalizer, then their own steps are performed, and after that nothing is done
             any more. What differs is one policy for each: what is looked at, decided and done.
Map.         ``decide``     what is seen of any such object, its first and last steps, its condition (pure)
             ``reconciler`` one pass: look, decide, act, report
"""
