"""Kafka's command line tools by their names, options, output and exit codes, for scripts written for Kafka's images.

A tool is a function in a module of its own, and `TOOLS` has them by name. Options are those of Kafka 4.4: one that is
not understood here, or cannot be honoured, is refused with exit code 1 as Kafka's tools refuse theirs, and none is
ignored. Everything is asked by `kpybroker.client`.
"""
