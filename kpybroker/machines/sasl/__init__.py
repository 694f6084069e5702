"""SASL, without sockets: the messages of each mechanism, both halves of each exchange, JAAS texts. Pure."""
