"""What follows from the model, for any engine.

`weights`: where it finds them. `precision`: what it can make of them while loading. `speculative`: tokens that are
    drafted. `context`: a longer context than the model's config states. `sharing`: whether GPUs may share contexts.
"""
