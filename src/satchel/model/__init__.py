"""The value types of the package: memories, scopes, filters, items to pack, receipts, ids.

Frozen structs, and checks of arguments. This package knows nothing of stores, ranking or formats.
"""
