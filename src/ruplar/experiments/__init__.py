"""A study file → methods × seeds, each trained, asked and recorded under equal conditions."""
