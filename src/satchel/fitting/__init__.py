"""Candidates and a token budget to text: renditions, choice, receipt, formats, footers.

The one place that holds the promise `count(final text) <= budget`. It knows nothing of stores or sessions.
"""
