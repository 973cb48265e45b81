"""Which version of a use case a wave runs as, when it was deployed otherwise meanwhile.

A recorded wave has to be run again as it was: with another order its slices are merged otherwise,
with another guarantee it is not known to be written down, and with another sink its effects are
where nobody looks. Where bad records were set aside, its effect is of the others, and where they
stop a lane it is none. So it runs under the terms that it carries. Where only guarantee, order and
what becomes of bad records are others, the newest version runs it under these; where sink or form
are, an earlier version does that this driver still has. One that has none cannot know what is in
the other sink, and leaves the wave where it is, with a reason for people. That reason says whether
to deploy it as it was, or that it is deployed so and this driver has not taken it.

What is planned anew is always of the newest version. There is one version kept for each terms. Of
the terms that a use case had, those are kept that something is recorded under, and the last few,
in case another driver is late to take the newest. Of a use case that is over, a rerun, none is
kept.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from headrace.model.records import Deployment
from headrace.model.streams import StreamId, original
from headrace.model.waves import Terms, Wave
from headrace.ports import Engine
from headrace.ports.sink import plain_fields
from headrace.use_cases import UseCase

#: terms of a use case that are kept whatever is recorded, the newest among them
SPARE_TERMS = 4


class Version(NamedTuple):
    """A use case as it was deployed."""

    use_case: UseCase
    deployment: Deployment


@dataclass(slots=True)
class Versions:
    """The versions that a driver can run."""

    engine: Engine[UseCase]
    newest: dict[str, Version] = field(default_factory=dict)
    #: what is deployed, be it not taken here; looked up where something recorded waits
    deployed: Mapping[str, Deployment] = field(default_factory=dict)
    #: by use case and terms, those taken last at the end
    _under: dict[tuple[str, Terms], Version] = field(default_factory=dict)
    #: there may be versions that nothing needs
    crowded: bool = False
    #: use cases of which nothing more is to come
    _over: set[str] = field(default_factory=set)

    @property
    def hasty(self) -> frozenset[str]:
        """Use cases whose calls may be ended after a moment."""
        return frozenset(
            name for name, (use_case, _) in self.newest.items() if use_case.bears_haste
        )

    def take(self, use_case: UseCase, deployment: Deployment) -> None:
        """Take a use case that the engine has taken, or a new version of one."""
        name = use_case.name
        self._over.discard(name)
        self.newest[name] = made = Version(use_case, deployment)
        self._under.pop((name, use_case.terms), None)
        self._under[name, use_case.terms] = made
        known = [terms for of, terms in self._under if of == name]
        for terms in known:
            self._adapt(name, terms)
        self.crowded |= len(known) > SPARE_TERMS

    def end(self, names: Collection[str]) -> None:
        """Let use cases go of which nothing more is to come, once nothing of them is left."""
        self._over = self.newest.keys() & names
        self.crowded |= bool(self._over)

    def know(self, deployed: Iterable[Deployment]) -> None:
        """Be told what the store has, be it not taken here."""
        self.deployed = {deployment.use_case: deployment for deployment in deployed}

    def keep(self, waves: Iterable[Wave], held: Iterable[StreamId] = ()) -> None:
        """Let go what none of these waves needs: those in flight, and all that are recorded.

        Of each use case the last few terms stay all the same. A wave that another driver records
        later under older ones waits, should this driver inherit it.

        Args:
            waves: those.
            held: streams that are on the board, whose use cases stay.
        """
        needed = {(wave.use_case, wave.terms) for wave in waves}
        busy = {name for name, _ in needed} | {stream.use_case for stream in held}
        for name in self._over - busy:
            self._let_go(name)
        self._over = set()
        needed |= {(name, use_case.terms) for name, (use_case, _) in self.newest.items()}
        known: dict[str, list[Terms]] = {}
        for name, terms in self._under:
            known.setdefault(name, []).append(terms)
        for name, of_use_case in known.items():
            for terms in of_use_case[:-SPARE_TERMS]:
                if (name, terms) not in needed:
                    del self._under[name, terms]
                    self.engine.forget(name, terms)
        self.crowded = False

    def _let_go(self, name: str) -> None:
        del self.newest[name]
        for of, terms in [key for key in self._under if key[0] == name]:
            del self._under[of, terms]
            self.engine.forget(of, terms)
        self.engine.forget(name, None)

    def of(self, wave: Wave) -> Version:
        """The version of a wave that was started."""
        assert wave.terms is not None, f"wave {wave.id} was started without terms"
        return self._under[wave.use_case, wave.terms]

    def begun(self, wave: Wave) -> Wave:
        """A new wave, under the terms of its use case as it is now."""
        return replace(wave, terms=self.newest[wave.use_case].use_case.terms)

    def again(self, recorded: Wave) -> Wave | None:
        """A recorded wave, under the terms that it has to run under; None if nothing here can."""
        for terms in self._meant(recorded):
            key = recorded.use_case, terms
            if key not in self._under:
                self._adapt(*key)
            if key in self._under:
                return replace(recorded, terms=terms)
        return None

    def _meant(self, recorded: Wave) -> Iterator[Terms]:
        """What a record may mean, likeliest first: an earlier version did not write down all."""
        newest = self.newest[recorded.use_case].use_case
        if recorded.terms is None:
            made = newest.as_recorded(None)
            if made is not None:
                yield made.terms
            return
        terms = recorded.terms
        if terms.bad_record is None:
            terms = replace(terms, bad_record=newest.bad_record)
        yield terms
        if not terms.place:
            yield replace(terms, place=newest.place)

    def why_not(self, recorded: Wave, stream: StreamId) -> str:
        """Why a recorded wave waits that nothing here can run, and what to do about it."""
        was = recorded.terms or "terms that an earlier version of Headrace did not write down"
        now = self.newest[recorded.use_case].use_case.terms
        place = recorded.terms.place if recorded.terms else ""
        back = f", with warehouse {place}," if place not in ("", now.place) else ""
        name, lacking = stream.use_case, self._lacking(recorded)
        if lacking is None:
            what_helps = f"deploy {name} again as it was{back} until this is done"
            if unsaid := _unsaid(recorded.terms, now):
                what_helps += (
                    f"; if it was with {unsaid} then too, an earlier version of Headrace recorded "
                    "it and did not write that down: let that version finish it"
                )
        else:
            what_helps = (
                f"{name} is deployed as it was, as {lacking.digest[:12]}, which this driver has "
                "not taken; 'headrace use-cases list' says why: mend that, then type "
                f"'headrace use-cases deploy {original(name)}', and it is tried again"
            )
        return (
            f"what was recorded of it under {was} can not run under {now}: {what_helps}, or give "
            f"it up: 'headrace streams seek {stream} --to' another place"
        )

    def _lacking(self, recorded: Wave) -> Deployment | None:
        """What is deployed and not taken here, if its effects are where those of the record are."""
        found = self.deployed.get(recorded.use_case)
        if found is None or recorded.terms is None or found.digest == self._digest(recorded):
            return None
        # An earlier version of Headrace did not write down where effects go.
        return found if found.guarantee and found.sink == recorded.terms.sink else None

    def _digest(self, wave: Wave) -> str:
        return self.newest[wave.use_case].deployment.digest

    def _adapt(self, name: str, terms: Terms) -> None:
        """Let the newest version be what runs under some terms, if it can be."""
        use_case, deployment = self.newest[name]
        made = use_case.as_recorded(terms)
        if made is not None and terms != use_case.terms:
            self.engine.take(made, deployment)
            self._under[name, terms] = Version(made, deployment)


def _unsaid(was: Terms | None, now: Terms) -> str:
    """What a sink says of itself beside all that was recorded of it; empty if it says otherwise."""
    if was is None:
        return ""
    (kind, before), (kind_now, fields) = plain_fields(was.sink), plain_fields(now.sink)
    if kind != kind_now or not before.items() <= fields.items():
        return ""
    return ", ".join(f"{name}={fields[name]!r}" for name in fields if name not in before)
