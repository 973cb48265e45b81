"""The nouns of Headrace: frozen values, standard library only.

Everything that two rooms hand to each other is one of these. Nothing here reads a clock, draws a
random number or talks to anybody. `docs/glossary.md` explains the words.
"""
