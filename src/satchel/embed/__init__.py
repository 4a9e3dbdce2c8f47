"""Text to vectors: the sentence encoder that comes with the package, word vectors, local models, an endpoint.

Only the vectors themselves; which texts are embedded and when is up to `recall.indexer`.
"""
