"""A store some of whose parts are others, such as one that fails."""


class WithParts:
    def __init__(self, store, **parts):
        self._store = store
        self.__dict__.update(parts)

    def __getattr__(self, name):
        return getattr(self._store, name)
