"""Frames and schemas → problems in many wordings: `word-problems:situations`.

What a child learns to tell apart (something changes, two lots make one, two are compared, equal groups, and what follows from
such things together) are twelve schemas,
`families/situation_*.py`; what they are told about are some forty frames (`at_home.py`, `out_and_about.py`, `places.py`); how
they are put is drawn by `telling.py`. What is trained on is held against the test sets (`data.decontaminate`), from which no
sentence was taken; how near the two are is in docs/results.md.
"""
