"""The same commands on a Ray cluster: cells of a study, questions, rows of data and a server on many machines.

Ray is in the extra `ray`. Every node needs the same version of ruplar; run folders and model folders must be on a file system
that all nodes share, under the same path.
"""
