"""The guards: what the sender of a request needs before its handler sees it, and what it must not see of the answer.

`needs` is the table: for every API what it needs on a broker's listener and on a controller. A need on the cluster
holds for the whole request. A guard is a function that examines single topics, groups and so on. Both stand before the
handler, as a stage of their own, which exists only where an authorizer is configured. A few handlers ask themselves,
since the answer is made of kept parts: Metadata, DescribeTopicPartitions, Fetch.

(Kafka: ``AuthHelper``, and the checks in ``KafkaApis``, ``ControllerApis`` and ``ConfigHelper``.)
"""
