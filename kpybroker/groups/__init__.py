"""Groups: who is a member, who reads what, and how far they came. Pure: one machine for each partition of
``__consumer_offsets``, fed by `kpybroker.hosting` through a journal."""
