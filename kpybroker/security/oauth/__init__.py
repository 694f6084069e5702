"""OAuth 2 for SASL OAUTHBEARER: signed tokens and their keys, token endpoints, and how both are fetched (KIP-768)."""
