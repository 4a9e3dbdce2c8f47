"""The values everything else is made of: memories, scopes, filters, items to pack, receipts, ids.

Frozen structs and checks of what callers hand over. No store, no ranking, no formatting.
"""
