"""One file a family: its first line says what it tells of, `STEPS` how long it can be, `build(story)` writes a problem."""
