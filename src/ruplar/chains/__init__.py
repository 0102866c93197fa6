"""Raw files → examples → spans."""
