"""The cluster's own balancer, on the node whose controller is active: a process beside the node, and who runs it."""
