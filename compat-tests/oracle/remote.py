"""The jars for objects of remote segments, beside Kafka's: see pom-remote.xml."""

from pathlib import Path

from oracle.jars import BUILD, HERE, KAFKA_BEFORE
from oracle.maven import copied

TEST_JAR_RELEASE = KAFKA_BEFORE
"""The Kafka whose jar of tests they hold, which runs with its jars alone."""


def remote_jars() -> Path:
    """A class path of them; fetches them at the first call."""
    return copied(HERE / "pom-remote.xml", BUILD / "kafka-remote") / "*"
