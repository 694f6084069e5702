"""How much work a broker does for a request, counted and held against what is committed.

Continuous integration cannot time anything, for its machines differ and are shared; but the number of functions called,
of system calls made and of bytes taken for one and the same request does not depend on how busy a machine is. So that
is what may not grow. ``python -m tests.budget`` shows it, ``--write`` makes it the new budget.
"""
