"""A fit by the single chain: `tuning` chooses its numbers, `report` begins it, makes its outcome and covariances."""
