"""The parts of security that need a library or the network: TLS, OAuth and Kerberos."""
