"""franz-go's kfake, a broker in Go for tests, as a side."""
