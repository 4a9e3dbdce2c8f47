"""The shapes of tool outputs, a file for each: how it is recognised, measured and digested.

`digest.py` has the table of shapes and what the rest of a session calls; `base.py` has what all shapes share.
"""
