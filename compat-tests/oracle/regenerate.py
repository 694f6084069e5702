"""Writes all that is generated from Apache Kafka's jars: messages, records, API keys, error codes and configs.

``python -m oracle.regenerate``, with ``compat-tests`` on the path. CONTRIBUTING.md lists what is done by hand.
"""

import sys

from kpywire.generator.__main__ import main as write_messages
from oracle import render_configs
from oracle.jars import KAFKA_BEFORE_4, jars_directory


def main() -> int:
    """Fetch the jars if they are not there, and write every generated file. Return the exit code."""
    code = write_messages([str(jars_directory()), str(jars_directory(KAFKA_BEFORE_4))])
    if code == 0:
        render_configs.main()
    return code


if __name__ == "__main__":
    sys.exit(main())
