"""The clients, clusters, requests and waiting that the suites share."""
