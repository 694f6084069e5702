"""Every API at every version, and the same requests to both brokers."""
