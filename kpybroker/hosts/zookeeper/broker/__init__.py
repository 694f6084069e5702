"""The broker in ZooKeeper mode: its registration, its metadata, and the requests of its controller.

`translation` and `controller_requests` decide and are pure; the rest is shell.
"""
