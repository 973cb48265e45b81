"""What to start now: a pure function from a `Snapshot` to a `Plan`. This page is its specification.

A thousand tenants have records waiting and a few slots are free. Whoever is planned now makes the
others wait, so every choice is a promise to somebody. The planner decides with numbers alone: no
clock, no chance, no I/O. The same snapshot gives the same plan, and any plan can be made again.

Properties, the first before the second
---------------------------------------
1. *Valid.* Slices begin at the position, end at or before the log's end and hold at least one
   record. A lane is in one slice at most, and in none while it runs, or while it is closed: a lane
   that follows others waits until each of them is done. A stream of order ``stream``
   runs alone, in one bin, with all its lanes that have records: one left out could hold the oldest
   record. It waits while a lane goes on and nothing of it may be planned yet. Its lanes are merged
   in memory and are one call, so together they are held to ``slice_bytes`` and have one fixed
   cost. No more bins than free slots; a wave is of one use case.
2. *Throttles kept.* A stream takes at most its allowance. While anything is allowed the least it
   can take may pass (one record, for order ``stream`` one of each lane), and its throttle owes it.
3. *Fair in task-seconds by weight, and work-conserving.* Records mislead: one tenant's may cost a
   thousand times another's. Who needs less leaves the rest to the others, and no slot is left
   idle while somebody could use it. What a stream was owed and did not get is its credit in the
   next turn; what it got too much is its debt. Both are kept up to 16 bins, so that neither a bad
   guess nor a long absence is paid for for ever; the debt of a stream that runs apart up to four
   calls that hang, so that others have had the slot for as long before it has it again.
4. *No bin predicted over its budget*, except by one slice alone (order ``stream``: the lanes of one
   stream) in two cases. It has one record (of each lane), and can not be made smaller. Or it costs
   so much however small that a budget would be spent on that: then it may take ``fixed_times`` what
   it costs however small, but no more than half of what is left until one call counts as hanging,
   and no more than four times the records of the largest slice that was seen lately. Such a slice
   fills a bin for what is shared out, and its stream owes what it takes beyond.
5. *Few bins*, by predicted seconds: a further bin is opened only for ``min_bin_s`` of work.
6. *No flood and no suspect in the bin of a quick stream*, since a receipt comes when its bin has
   ended. Bins are of one kind (`kinds`): *quick*, with at most ``quick_s`` waiting in all, even if
   it takes as much longer as its spread allows; *bulk*, with more; *cautious*, if slow or unsteady;
   *unknown*, without a receipt; *apart*, if suspected of hanging or of killing its worker, and then
   of one label. With too few slots for all kinds they take turns. An unknown stream is probed with
   ``probe_records``, and with four times more after each of its first receipts, but not with more
   than what took too long.
7. *Sizes are tried*, or what of a slice's cost is fixed would not be known. Where more waits than
   one slice takes, and slices of different size have told too little lately, one slice is a
   sixteenth as long as it might be. Where it would have three records at most it is twice as long
   instead, at most one in eight of them, if that is no more than half of what counts as hanging.
8. *Stable.* The order of streams in the snapshot does not matter. Ties go to the lower stream id
   (use case, tenant), then to the lane that comes first in its stream: they come in the order of
   their names.

*Nobody starves.* Rank a stream by credit over weight. All that wait rise alike, and being served
lowers the rank, so those not served keep their order. Slots go to the group (use case, kind and
label) of the highest, and groups of nothing but debtors wait while others want slots. So a stream
waits until others have had what ranked them higher, and until it has saved for the least that is
worth taking (``least_s``: a fiftieth of a bin, or twice what a slice costs however small if that is
more, up to a quarter of a bin; or all it has). Meanwhile another stream of weight ``w`` can have at
most ``w`` times (by how much it was ahead in rank, plus ``least_s`` over the waiting
stream's weight), and one turn's share more for each stream of its group, itself included.

*And predictions may be wrong.* What a bin really used is settled with the credit
(`policies.fairness`), so that shares are of real seconds. With predictions up to ten times too high
or too low, changing as they go, and lanes enough to go on with while others run, streams with an
endless backlog are within 15 % of their shares after 200 turns, mostly within 2 %. Nobody is then
passed over for more turns than three times (the number of streams, plus the sum of all weights over
its own, times one more than the bins it is in debt).

Inside a stream lanes need no credits: those with less than their part of the share are served
whole, and which of the long ones begins moves on as they are done. Lanes whose log does not say
where they end are visited, those first that are due longest.

Where lanes are merged, only the oldest records are taken of what was planned, and nobody knows here
in which lanes they are. So one half of a share is divided alike, and the other half as the last
call took. Alike alone would leave nearly all of it where one lane is older or longer than all
others; by the last call alone a lane that begins to have the oldest would begin with nothing.

Steps, and what holds after each
--------------------------------
`demand`    what each stream could use, alone: taking at most this breaks no rule but of capacity.
`shares`    slots of each group, records of each stream: together within the capacity of the
            turn, ``free_slots * bin_budget_s``, by weighted max-min fairness with credits.
`slices`    which records of which lanes: each share exactly, or in seconds where lanes are visited;
            no lane twice.
`packing`   bins within the budget and the slots; what does not fit is trimmed for a later turn.
`waves`     bins of a group and of like length together.
`check`     names what is wrong with a plan. It is written apart, and run on every plan.

A worked example
----------------
One record costs 1 ms. Two slots are free, a bin has 1 s, so there are 2 s to share. The whale has
4 lanes of 1,000 records (4 s), a tenant of weight 2 has 2 such lanes (2 s), a small one 200 records
(0.2 s). The water rises: the small one is full at 0.2 s; the rest, 1.8 s, goes 1 to 2, which is
0.6 s and 1.2 s. A lane is worth up to a quarter of a bin here before another one is begun, so the
whale's part comes from three of its lanes, 200 records each; the fourth stays free for the slot
that ends next. The heavy tenant needs both of its lanes, 600 records each. All three have more
than 0.1 s waiting, so they may share bins.

>>> from headrace.connectors.kafka import OFFSETS
>>> from headrace.model.lane_names import named
>>> from headrace.model.plans import Cost, LaneView, Snapshot, StreamView
>>> from headrace.model.streams import StreamId
>>> from headrace.planning import check, plan
>>> cost = Cost(seconds_per_record=0.001, seconds_per_slice=0.0, spread=0.1, samples=9)
>>> def stream(tenant, lanes, records, weight):
...     stream_id, topic = StreamId("score", tenant), f"{tenant}.visits"
...     names = [named(topic, number) for number in range(lanes)]
...     views = tuple(LaneView(name, 0, records, records) for name in names)
...     return StreamView(stream_id, topic, views, weight=weight, cost=cost)
>>> streams = (stream("whale", 4, 1000, 1), stream("heavy", 2, 1000, 2), stream("small", 1, 200, 1))
>>> snapshot = Snapshot("turn-7", streams, free_slots=2)
>>> made = plan(snapshot, OFFSETS)
>>> for wave in made.waves:
...     for bin_ in wave.bins:
...         print(wave.id, f"{bin_.predicted_s:.3f} s", *bin_.slices, sep=chr(10) + "  ")
turn-7-0
  1.000 s
  heavy.visits[0] 0..600
  small.visits[0] 0..200
  whale.visits[0] 0..200
turn-7-1
  1.000 s
  heavy.visits[1] 0..600
  whale.visits[1] 0..200
  whale.visits[2] 0..200
>>> check(snapshot, made, OFFSETS)
[]

Each got just what it was owed, so nobody has a credit:

>>> max(abs(credit.credit_s) for credit in made.credits) < 1e-6
True

A handler takes 2 s for each call besides 1 ms for each record. In a budget of 1 s it would get one
record for each call. Slices of 3,000 were seen, so it gets four times that, which takes less than
eight times 2 s, and has a bin to itself. Its share was 0.4 s: what it takes beyond, it owes.

>>> from headrace.model.plans import Contrast
>>> seen = Contrast(records=3000, seconds=5.0, weight=9.0)
>>> cost = Cost(0.001, seconds_per_slice=2.0, spread=0.1, samples=9, contrast=seen)
>>> lanes = (LaneView("calls.visits[0]", 0, 10**6, 10**6),)
>>> calls = StreamView(StreamId("score", "calls"), "calls.visits", lanes, cost=cost)
>>> snapshot = Snapshot("turn-8", (calls, *streams), free_slots=2)
>>> made = plan(snapshot, OFFSETS)
>>> for bin_ in (bin_ for wave in made.waves for bin_ in wave.bins):
...     print(f"{bin_.predicted_s:.3f} s", *bin_.slices, sep=chr(10) + "  ")
1.000 s
  heavy.visits[0] 0..267
  heavy.visits[1] 0..267
  small.visits[0] 0..200
  whale.visits[0] 0..266
14.000 s
  calls.visits[0] 0..12000
>>> check(snapshot, made, OFFSETS)
[]
>>> print([f"{share.credit_s:.1f}" for share in made.credits if share.stream == calls.id])
['-13.6']
"""

from headrace.planning.check import FaultKind, PlanFault, check
from headrace.planning.plan import plan
from headrace.planning.quick import quick_only

__all__ = ["FaultKind", "PlanFault", "check", "plan", "quick_only"]
