"""Positions for sinks that are tested alone."""


class StillThere:
    """Positions that stand where every slice begins."""

    def advance(self, moves):
        return [True] * len(moves)
