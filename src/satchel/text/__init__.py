"""Analysis of single texts: tokens, index terms, passages, dates, secrets, near-duplicates.

Everything is a function from strings to values. Nothing here knows about stores or budgets.
"""
