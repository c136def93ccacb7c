"""Move what is old, and no longer needed to decide or to prove anything, from the database into files."""
