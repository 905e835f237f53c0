"""What surrounds an engine in its pod, whichever it is.

`environment`: variables of the container. `interfaces`: network interfaces beside the first. `failures`: the line of
    its log that says why it ended.
"""
