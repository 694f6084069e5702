"""TLS, logins, ACLs and envelopes, beside Apache Kafka."""
