"""Hundreds of nodes in one process: real controllers with their metadata log on a disk, and thin brokers.

``python -m tests.scale`` plays the stories of a large cluster and prints what each cost; ``make scale`` calls it.
"""
