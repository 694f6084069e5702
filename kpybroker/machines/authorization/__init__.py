"""ACLs, and the decisions of Kafka's ``StandardAuthorizer``. Pure."""
