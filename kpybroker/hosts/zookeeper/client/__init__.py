"""A client for ZooKeeper: its bytes, its sessions, and the connection that carries them.

`session` decides and is pure; `client` is the shell. Not here: znodes of Kafka.
"""
