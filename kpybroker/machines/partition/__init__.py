"""The role of a replica in its partition: leader or follower in one leader epoch. Pure: no clock, no socket."""
