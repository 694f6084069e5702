#!/usr/bin/env python3
"""Kafka's tools, linked under their names with and without .sh: `kpybroker.cli.kafka_tools` has them."""

import sys

from kpybroker.cli.kafka_tools.__main__ import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[0], sys.argv[1:]))
