"""TLS, without connections: key stores, trust stores, contexts, the names in certificates."""
