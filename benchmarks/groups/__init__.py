"""What groups cost the event loop: loading a million commits, and a group of a thousand members that rebalances."""
