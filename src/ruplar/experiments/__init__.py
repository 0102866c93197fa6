"""A study file → rows × seeds, each trained, evaluated and recorded under equal conditions."""
