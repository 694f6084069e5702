"""The limit of a broker with one thread on this machine: a C program that receives, writes and answers the same bytes.

Its answers are recorded from kpybroker, so that the clients of a row cannot tell the difference.
"""
