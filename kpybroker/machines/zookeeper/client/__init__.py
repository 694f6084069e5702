"""The protocol of ZooKeeper: frames, sessions, watches and logins."""
