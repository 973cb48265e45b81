"""How a use case gets from a file to every driver, and what a refusal there means.

``offer`` is what the YAML file names, written into the store. ``checking`` tries a version out in a
process of its own before that. ``starting`` says what a start deploys, and what not. ``taking`` is
how a driver takes what was deployed, beside its turns. What a version is, and how several live side
by side, is `versions/`.
"""
