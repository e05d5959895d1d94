"""What crosses the wall between devices and the collector. Public numbers, the standard library only.

`codes` has constants, `plans` what a loop is handed and what a collector keeps. Both sides import it, it imports
neither.
"""
