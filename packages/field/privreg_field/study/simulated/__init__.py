"""A study on made-up people, who see what real devices would.

`devices` are simulated ones, many at once, `swarm` lets them answer, and `demo` plays a whole study by the commands
that a real one takes.
"""
