"""What a step, its symbols, its result and a right answer are, one file a domain."""
