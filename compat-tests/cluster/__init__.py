"""Several nodes, of one program or of both: they join, die, fail over and are upgraded."""
