"""The answers of the console: each gathers what a view needs, for one viewer, and returns the view's value."""
