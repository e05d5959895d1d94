"""Results with the command, versions and date that made them; kept where the experiments of the package need it too."""

from privreg.published.experiments.store import header, read_table, save_table

__all__ = ["header", "read_table", "save_table"]
