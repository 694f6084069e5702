"""Groups of the streams protocol (KIP-1071): the coordinator knows the topology and gives tasks to members."""
