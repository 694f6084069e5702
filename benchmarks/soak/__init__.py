"""Hours of mixed load on one kpybroker, and whether anything grows that should not: ``python -m benchmarks.soak``.

Producers, consumers with and without groups, topics that come and go and connections that come and go load a broker
moderately; beside them its memory, descriptors, garbage collection and loop lag are read. It ends with code 1 when one
of them has a slope, or when a record was lost, doubled or out of order.
"""
