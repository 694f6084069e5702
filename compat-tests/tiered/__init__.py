"""Tiered storage beside Apache Kafka: what it answers, directories that move both ways, and kills under load."""
