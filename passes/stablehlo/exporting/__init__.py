"""Rules from `tg`'s ops to StableHLO's, by family."""
