"""Plots in plain SVG, small enough to be read: bars of ratios, latency distributions, curves over an axis. Pure."""
