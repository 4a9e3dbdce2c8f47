"""From a query to ranked hits: words, vectors, surroundings, relations and time are combined into one score.

This package also keeps the index that ranking reads up to date. What fits into a budget is decided in `fitting`.
"""
