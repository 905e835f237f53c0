"""Observing: caches of the cluster and of our resources, metrics sources, and the snapshot built from them.

Import names from their modules: `weft plan` reads nodes from a file, and need not load clients it never uses.

`snapshot_builder`: one snapshot from the caches. `collector`: the metrics of all pools, in rounds. Below them are
packages, whose heads say which module has which:

The cluster. `informers`: nodes, pods and what others report. `custom_resources`: InferencePools and PDSplits.
Metrics. `sources`: who is asked, by scraping or through Prometheus. `signals`: what pods and pools did, and what is not
    believed of it. These four do not know each other.
What they share, none of which knows another. `api_server`: reads from it. `objects`: Kubernetes objects as records.
    `samples`: what metrics were over time.
"""
