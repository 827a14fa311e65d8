"""Native code: for each archetype, its choice (`*_schedule`) beside its code; passes on `cpu`, LLVM, and its text.

Matrix products, the largest, have a folder.
"""
