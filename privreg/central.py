"""A trusted curator's regressions by a name of their own, and what the published descent of one has beside them."""

from privreg.options.unknown import stub_names

__all__, __dir__, __getattr__ = stub_names(__name__)
