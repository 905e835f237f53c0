"""What every pool shall run: the shape of one replica, on which accelerator, by which engine.

`planning`: the shape of every pool, and what one replica serves. `facts`: what a shape is chosen from. `support`: what
    this version refuses.
`pairs`: both halves of a split together (`pair`). `exchange`: whether plans exchange KV.
    `nvlink_domains`: which of them can hold a whole split.
`wished_shapes`: plans in another shape than the best. `alternatives`: what else a pool could run. `left_shapes`: which
    shape it left last. `kept_shapes`: how long it keeps the one it has since.
"""
