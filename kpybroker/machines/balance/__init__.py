"""The balance of a cluster: which replicas and leaders should move, in which order, why, and who may stop meanwhile.

The door is `kpybroker.machines.balance.planner.plan`. It knows neither requests nor Kafka's messages: a model comes in
(`model`), a plan goes out (`ordering`), and `plan_file` writes it as kafka-reassign-partitions reads it. `executing`
decides the pace of a plan, `rolling` which nodes may stop together.
"""
