"""The people's lane: one event loop a process that every person's request of it goes through.

`interactive` is the door: ask there, from a thread or from any loop. Behind it `lane` takes a
request from its arrival to its end; `admission` gets places for all who wait in a pool, in groups;
`sharing` stands outside and puts small embedding requests together before they go into the lane.
"""
