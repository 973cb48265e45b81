"""A use case's code as a thing of its own: read from a folder, named by a digest, kept, imported.

A file lies in a folder and changes there; what runs must be what was deployed. So a *version* is
the file of a module and every local module that it imports, under one digest over all of it.

Not here: whether a version is fit to run and what is deployed (`deploying/`), and how it gets to
the workers (`spark/shipping.py`).
"""

from headrace.versions.code import Code, LocalModule
from headrace.versions.loading import LoadedModule, load_code
from headrace.versions.reading import Place, find_module, places_of, read_code
from headrace.versions.shelf import Shelf

__all__ = [
    "Code",
    "LoadedModule",
    "LocalModule",
    "Place",
    "Shelf",
    "find_module",
    "load_code",
    "places_of",
    "read_code",
]
