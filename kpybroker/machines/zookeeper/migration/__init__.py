"""The migration of a cluster from ZooKeeper to KRaft, seen from the KRaft controller (KIP-866). Pure.

The driver decides what to do next. It copies the znodes into records, and from then on writes every change of the
metadata back into ZooKeeper, so that the cluster can return. Brokers that are still in ZooKeeper mode get their orders
from it.
"""
