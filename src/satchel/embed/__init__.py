"""Embedders, from text to vectors: the bundled sentence encoder, word vectors, local models, an HTTP endpoint.

This package only computes vectors. `recall.indexer` decides which texts are embedded and when.
"""
