"""What waits for a person: a finder for each kind of errand, each with one query."""
