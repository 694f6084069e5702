"""Topics, configs, log directories and metrics of clients: what administrators ask for."""
