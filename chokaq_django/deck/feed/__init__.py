"""The live feed: one look at the database for all browsers of a process, and to each of them only what has changed.

``sections`` says what there is to see, ``look`` reads it once for all topics, ``changes`` counts what has changed,
``board`` holds the newest state for sockets and polls alike, ``hub`` keeps it up to date while sockets are open,
``access`` says who may look, ``consumer`` talks to one socket.
"""
