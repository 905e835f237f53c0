"""A cluster that is only read, or a file in its place.

`reading`: our resources, nodes and pods. `kubeconfig`: which cluster. `world`: nodes and pods to plan against.
    `inputs`: where they are from. `rules`: PriorityClasses and ResourceQuotas. `running`: pools and splits with their
    status. `sitting`: who holds which GPUs. `config_maps`: the config.json that a pool's model names. `counted_nodes`:
    so many empty nodes of a kind.
"""
