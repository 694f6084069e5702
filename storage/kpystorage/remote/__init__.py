"""Segments in object stores: the layout of Aiven's plugin, and that of Kafka's LocalTieredStorage.

Pure: bytes and numbers in and out. Random bytes are given from outside. Not here: stores, copies, caches.
"""
