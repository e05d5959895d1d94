"""Figures of results. matplotlib is imported when the first is drawn."""
