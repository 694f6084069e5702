"""The audit of a cluster's data: what is there, and whether it is whole, in order and the same on every replica.

The work is a map and a reduce. The map (`walk`) reads a stretch of one replica's log and keeps its facts as a
`Stretch`. The reduce joins stretches (`stretch`) and compares them: replicas with one another (`replicas`),
transactions with the decisions of their coordinator (`transactions`), groups with logs (`groups`), tables with topics
(`tables`), a mirror with its source (`mirror`). All of these are pure and exchange plain tuples. The shells read
directories (`directories`) or a running cluster (`cluster`), in processes of this machine (`running`).
"""
