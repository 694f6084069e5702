"""Apache Kafka from its jars, for comparison: fetches them with Maven, runs its classes, starts its broker."""

from oracle.broker import RECEIVER, SERVER_JVM, SERVER_PROPERTIES, SMALL_JVM, SMALL_PROPERTIES, ApacheKafka
from oracle.jars import classpath, compile_java, jars_directory, java
from oracle.process import BrokerProcess, BrokerProcessError, free_port, has_ipv6_loopback

__all__ = [
    "RECEIVER",
    "SERVER_JVM",
    "SERVER_PROPERTIES",
    "SMALL_JVM",
    "SMALL_PROPERTIES",
    "ApacheKafka",
    "BrokerProcess",
    "BrokerProcessError",
    "classpath",
    "compile_java",
    "free_port",
    "has_ipv6_loopback",
    "jars_directory",
    "java",
]
