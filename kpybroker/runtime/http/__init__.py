"""The second port's HTTP: requests with methods, bodies and an identity, answered by routes. Knows no metric."""
