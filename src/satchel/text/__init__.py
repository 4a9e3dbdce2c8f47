"""What can be said of a text alone: its tokens, terms, passages, dates, secrets, near-duplicates.

Functions from strings to values. Nothing here knows of stores or budgets.
"""
