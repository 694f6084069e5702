"""The parts that the state machines of all coordinators have in common, whatever they coordinate: inputs that the node
itself gives them, the form of a decision, and long work in slices. Pure."""
