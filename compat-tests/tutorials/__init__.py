"""What documents show, played."""
