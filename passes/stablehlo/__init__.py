"""StableHLO, in and out: the passes `stablehlo-to-tg` and `tg-to-stablehlo`."""
