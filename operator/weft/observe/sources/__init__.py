"""Where metrics come from.

`targets`: which pods are asked. `pickers`: endpoint pickers of others. `source`: what answers, which is `direct` (pages
    of the engines) or `prometheus`. `exposition`: the text of a page. `bounded`: answers that are neither too large nor
    too slow.
`downloads`: the progress of weights. `past`: traffic of the weeks before.
"""
