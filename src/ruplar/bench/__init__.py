"""Speed and memory benchmarks: ruplar, the published procedure and the hardware floor, measured in one run."""
