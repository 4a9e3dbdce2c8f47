"""From words to times: the spans that a question names, and the moments of a filter, in five languages."""
