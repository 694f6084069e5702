"""Metrics and the console, which the second port serves."""
