"""`Satchel`, the object users hold, and its async twin; saving, import and export.

Joins the layers below; has no SQL and no formatting of its own.
"""
