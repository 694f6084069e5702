"""Whole nodes in one thread: the production code on a simulated clock, network and disk.

``python -m tests.sim`` runs seeds, repeats one with everything that happened, and looks which planted bugs are found.
A simulation has a process of its own, since it takes the clocks of the system away from everything in it
(:mod:`tests.sim.processor`). Nothing in here is random but by the seed.
"""
