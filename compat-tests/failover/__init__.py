"""The effects on its producers when nodes of a cluster fail: nothing acknowledged lost, doubled or out of order, and
for how long nothing was acknowledged. The same for kpybroker and for Apache Kafka."""
