"""Groups whose members have epochs, as far as the kinds are alike (KIP-848, 932, 1071): the states of a group and its
members, targets, timeouts, refusals, and the orders of Java's tables."""
