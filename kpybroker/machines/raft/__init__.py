"""The quorum that keeps the metadata log (KRaft: KIP-595, KIP-853), in etcd's form.

``step(message, now_ms)`` and ``append(records, now_ms)`` go in, ``ready()`` says what to make durable. Persistence
comes before messages: ``ready()`` first hands out what must be on disk, and nothing follows from it until the disk has
answered with a message. Pure: no clock, file, socket or thread. The shell around it is
``kpybroker.hosts.quorum.shell``.
"""
