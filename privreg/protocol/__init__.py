"""What crosses the wall between devices and the collector: codes, shapes and plans. Public numbers only.

Devices and collector import it, it imports neither. Standard library only, apart from names of types.
"""
