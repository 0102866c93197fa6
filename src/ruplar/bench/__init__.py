"""Ours, the published procedure, text CoT and the hardware's floor, measured in one run."""
