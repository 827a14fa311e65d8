"""Shaders: for each archetype, its choice (`*_schedule`) beside its code; passes on `wgsl`, and its text."""
