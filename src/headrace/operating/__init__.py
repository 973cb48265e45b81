"""What a person decides about streams, the same at a terminal and by HTTP.

To retry, to skip, to send back, to seek: each has refusals, and an order in which things must
happen. They are here once, and both `cli` and `console` call them; neither decides for itself.
"""
