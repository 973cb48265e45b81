"""Everything that can go wrong between drivers, tasks, store and log, drawn from one number.

A fault matters only at the wrong moment, and there are too many moments to name. So one scheduler,
fed by ``random.Random(seed)``, runs several real drivers and the real task code on fakes of Kafka,
Spark and clock, and lets processes die, sleep and wake at any call they make to the outside. At the
end all faults stop, everything has to come to rest, and the checkers compare what is there with
what was sent. The same seed plays the same run, so a failure is replayed by one command::

    python -m headrace.testing.simulation --seeds 10000 --jobs 2
    python -m headrace.testing.simulation --seeds 2500 --odds hides=0.7,reads_less=0.3
    python -m headrace.testing.simulation --seed 123 --trace

Read ``play.py`` for what can happen, ``odds.py`` for which faults there are, ``judge.py`` for what
must not happen, and ``generations.py`` for how a lane that was sought, added again, or lost its
records is judged. The idea is FoundationDB's simulation (Zhou et al., SIGMOD 2021), with its habit
to draw first which faults a run has at all: mostly few, so that single ones meet single others.

There is one thread, and what a driver does beside its turns is done at once or turns later. Who is
paused sleeps inside its call, and the others go on meanwhile. So they wake in the reverse order of
falling asleep, and nothing happens at the same instant. Not played are Kafka transactions,
DataFrame handlers that hang or kill (they would the driver), two drivers that run different use
cases, and a use case whose sink becomes another one.
"""

from headrace.testing.simulation.run import Outcome, simulate

__all__ = ["Outcome", "simulate"]
