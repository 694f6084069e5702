"""What the suites share: clients, clusters, requests, waiting. No test is here."""
