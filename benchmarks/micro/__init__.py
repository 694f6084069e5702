"""kpybroker's own modules on their own: microseconds of CPU per operation, without a socket.

``python -m benchmarks.micro [--profile TEXT] [codec] [batches] [appending] [handling]``. These figures find a place to
improve; what counts is measured beside Apache Kafka.
"""
