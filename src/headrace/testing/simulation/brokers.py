"""What happens to topics and brokers: records, gaps, lost leaders, and records that are lost.

Retention, a topic that is deleted and made again, and added partitions come as Kafka has them, at
once and whoever is reading; so does an unclean election, which cuts a log. A leader that was cut
off tells an end of a while ago, until it hears that it is none any more. In some runs lanes become
others, as Kafka's do not: one is split, two are merged, and what became others expires as a whole.
Some of those are listed long after they take records, and not both at once.
"""

from __future__ import annotations

from headrace.testing.simulation.world import World

#: a leader that is cut off hears of it after so long at the latest
STALE_S = 15.0
#: lanes that a topic has in all, of which so many take records, and chance that two become one
_MOST_LANES, _MOST_TAKING, _MERGES = 10, 4, 0.4
#: of records that are sent: a lane that nobody was told of is listed by now
_LISTED = 0.1


def send(world: World) -> None:
    """Some records; in some logs lanes become others meanwhile."""
    if world.odds.splits:
        _reshape(world)
    found = _partition(world, taking=True)
    if found is not None:
        world.topics.send(*found, world.rng.randint(1, 8))


def gap(world: World) -> None:
    """Offsets without records."""
    found = _partition(world, taking=True)
    if found is not None:
        world.topics.gap(*found, world.rng.randint(1, 3))


def broker(world: World) -> None:
    """No broker answers, or they do again."""
    world.topics.switch(down=not world.log.down)
    world.say(f"broker {'down' if world.log.down else 'up'}")


def leader(world: World) -> None:
    """A partition loses its leader, or has one."""
    found = _partition(world)
    if found is not None:
        present = world.rng.random() < 0.5
        world.log.set_leader(*found, present)
        world.say(f"{found[0]}[{found[1]}] {'has a' if present else 'lost its'} leader")


def expire(world: World) -> None:
    """Retention takes the oldest records of a partition, read or not."""
    found = _partition(world)
    if found is not None and world.rng.random() < world.odds.expires:
        start = world.topics.expire(*found)
        world.say(f"{found[0]}[{found[1]}] begins at {start}")
        world.counts["retentions"] += 1
        world.decisions.lost(found[0])


def cut(world: World) -> None:
    """An unclean election: a log loses its youngest records, and may grow again with others."""
    found = _partition(world, taking=True)
    # Where nobody knows where a log ends nobody can see that it was cut.
    known = found is not None and not world.log.hides_end(*found)
    if found is not None and known and world.rng.random() < world.odds.cuts:
        end = world.topics.cut(*found)
        world.say(f"{found[0]}[{found[1]}] is cut to {end}")
        world.counts["logs cut"] += 1
        world.decisions.lost(found[0])


def cut_off(world: World) -> None:
    """A leader is cut off from the others, and does not know it for a while."""
    found = _partition(world)
    if found is not None and world.rng.random() < world.odds.log_stale:
        for_s = world.rng.uniform(0, STALE_S)
        end = world.topics.cut_off(*found, for_s)
        world.counts["leaders cut off"] += 1
        world.say(f"{found[0]}[{found[1]}] has a leader that says {end} for {for_s:.2f} s")


def delete(world: World) -> None:
    """A topic is deleted."""
    found = _partition(world)
    if found is not None and world.rng.random() < world.odds.deletes:
        topic = found[0]
        world.say(f"topic {topic} deleted")
        world.counts["topics deleted"] += 1
        world.generations.deleted(world.decisions.lanes_of(topic))
        world.topics.delete(topic)
        world.decisions.lost(topic)


def make_again(world: World) -> None:
    """A topic that was deleted is made again."""
    gone = sorted(set(world.topics.made) - set(world.topics.partitions))
    if gone:
        topic = world.rng.choice(gone)
        world.topics.make(topic)
        world.counts["topics that came later"] += world.topics.made[topic] == 1
        world.say(f"topic {topic} made again, with {world.topics.partitions[topic]} partitions")


def widen(world: World) -> None:
    """A topic gets one more partition."""
    found = _partition(world)
    wanted = found is not None and world.rng.random() < world.odds.widens
    if found is not None and wanted and world.topics.widen(found[0]):
        world.say(f"topic {found[0]} has {world.topics.partitions[found[0]]} partitions")
        world.counts["partitions added"] += 1


def _reshape(world: World) -> None:
    """A lane becomes two, two become one, or one that became others is there no more."""
    found = _partition(world, taking=True)
    if found is None:
        return
    topic, number = found
    if world.odds.lists_late:
        _list(world, topic)
    known = set(world.topics.listed(topic))
    taking = [other for other in world.topics.taking(topic) if other in known]
    if number not in known:
        return
    if world.rng.random() < world.odds.splits and world.topics.partitions[topic] < _MOST_LANES:
        others = [other for other in taking if other != number]
        if others and (len(taking) >= _MOST_TAKING or world.rng.random() < _MERGES):
            other = world.rng.choice(others)
            made = world.topics.merge(topic, number, other)
            world.say(f"{topic}[{number}] and [{other}] become {made}")
            world.counts["lanes merged"] += 1
        else:
            made = world.topics.split(topic, number)
            world.say(f"{topic}[{number}] becomes {made}")
            world.counts["lanes split"] += 1
        if world.rng.random() < world.odds.lists_late:
            for child in made[world.rng.randrange(len(made)) :]:
                world.topics.hide(topic, child)
                world.counts["lanes listed late"] += 1
    if world.rng.random() < world.odds.drops:
        _drop(world, topic)


def _list(world: World, topic: str) -> None:
    """One of the lanes that nobody was told of is listed."""
    for number in sorted(set(world.topics.there(topic)) - set(world.topics.listed(topic))):
        if world.rng.random() < _LISTED:
            world.topics.show(topic, number)
            world.say(f"{topic}[{number}] is listed")
            return


def _drop(world: World, topic: str) -> None:
    """Retention takes a lane as a whole; the oldest go first."""
    sealed = set(world.topics.there(topic)) - set(world.topics.taking(topic))
    oldest = [
        number
        for number in sorted(sealed)
        if world.topics.is_oldest(topic, number)
        and not world.topics.is_followed_unseen(topic, number)
    ]
    if oldest:
        number = world.rng.choice(oldest)
        world.topics.drop(topic, number)
        world.say(f"{topic}[{number}] is not listed any more")
        world.counts["lanes dropped"] += 1
        world.decisions.dropped(topic)


def _partition(world: World, *, taking: bool = False) -> tuple[str, int] | None:
    """A partition that is there; None if no topic is."""
    if not world.topics.partitions:
        return None
    topic = world.rng.choice(sorted(world.topics.partitions))
    numbers = world.topics.taking(topic) if taking else world.topics.there(topic)
    return topic, world.rng.choice(numbers)
