"""The plans of scans: options, bounds, filters, ranges and columns."""
