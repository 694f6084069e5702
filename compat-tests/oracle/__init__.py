"""Apache Kafka from its jars, for comparison: fetches them with Maven, runs its classes, starts its broker."""

from oracle.jars import classpath, compile_java, java, jars_directory

__all__ = ["classpath", "compile_java", "jars_directory", "java"]
