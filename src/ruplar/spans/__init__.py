"""Step → spans, one file a rule."""
