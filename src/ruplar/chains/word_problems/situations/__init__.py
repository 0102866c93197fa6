"""Frames and schemas → short problems in many wordings: `word-problems:situations`.

What a child learns to tell apart (something changes, two lots make one, two are compared, equal groups) are a dozen schemas,
`families/situation_*.py`; what they are told about are some forty frames (`at_home.py`, `out_and_about.py`, `places.py`); how
they are put is drawn by `telling.py`. The schemas are those of the textbooks of word problems (Riley, Greeno and Heller 1983); no
sentence of a benchmark is among them.
"""
