"""How much a client may ask for: rates, token buckets, whose quota counts. Pure."""
