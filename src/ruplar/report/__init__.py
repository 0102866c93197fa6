"""run.json files → tables and pages."""
