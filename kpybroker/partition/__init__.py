"""What a partition's replica is to its partition: leader or follower in one leader epoch. Pure: no clock, no socket."""
