"""GeoDP and LDPVec, corrected: `reports` randomises a silo's update, `theory` has angles and how far they reach."""
