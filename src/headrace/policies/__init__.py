"""The slow decisions: how long to wait, what a record costs, how much a tenant may take.

Every function here takes what it knows as values, time and chance among them, and returns a new
value. So each rule can be tried with any history in a test, without waiting for it to happen.
Nothing here reads a clock, draws a random number or remembers anything.
"""
