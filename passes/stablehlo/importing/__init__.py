"""Rules from StableHLO's ops to `tg`'s, by family."""
