"""From a query to ranked hits: words, meaning, surroundings, relations, time and currency, fused and explained.

Also keeps the index that ranking reads up to date. What fits into a budget is decided in `fitting`.
"""
