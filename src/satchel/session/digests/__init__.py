"""The shapes of tool outputs, one file each: how a shape is detected, measured and summarised in a digest.

`digest.py` has the table of shapes and the functions that the rest of a session calls. `base.py` has what all
shapes share.
"""
