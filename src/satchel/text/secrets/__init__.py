"""Rules that find secrets in text: by their format, by the text around them, by the name they are assigned to.

`satchel.text.redact` applies all of them. Every rule takes linear time: repetitions are bounded, or possessive over
characters that cannot start the rule again.
"""
