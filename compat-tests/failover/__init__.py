"""What a cluster does to its producers while its nodes fail: nothing acknowledged lost, doubled or out of order, and
for how long nothing was acknowledged. The same for kpybroker and for Apache Kafka.
"""
