"""Silos in the field: hospitals that keep their rows answer a signed plan by noised sums, over Flower.

`plan` is what all sign or accept, `memory` a silo's own file of budgets and of what it sent, `rounds` the two sides of
a round, `flower` the apps that Flower's own commands start, and `command` the verb `privreg silo`.
"""
