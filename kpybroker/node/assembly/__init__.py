"""The builders of a node's parts. Each makes a few finished parts out of others that are finished already, and
`kpybroker.node` calls one after the other."""
