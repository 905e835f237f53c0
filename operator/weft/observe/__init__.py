"""Observing: caches of the cluster and of our resources, metrics sources, and the snapshot built from them.

Names are imported from their modules: `weft plan` reads nodes from a file, and does not wait for clients it never uses.

The cluster. `reflector`: a kind of it, kept current. `cluster_cache`, `resource_cache`, `gateway_cache`, `queue_cache`,
    `quota_cache` and `report_cache`: which kinds. `reading`: requests to the API server. `lookups`: what is read only
    when somebody needs it. `pod_logs`: the last lines of an engine that failed. `cluster_clock`: the time.
Records of it. `records`: nodes, pods and objects. `amounts`: devices, as the scheduler counts them. `pod_words`: why a
    pod ended or waits. `identity`: whose a pod is. `starts`: what a start took. `bodies`: our own resources.
    `queue_records`, `quota_records` and `report_records`: what others report. `regained` and `regaining`: replicas
    that a status has lost.
Metrics. `collector`: the round over all pools. `targets`: which pods are asked. `sources`: where the answer comes from,
    which is `direct` or `prometheus`. `pickers`: fronts that are not ours. `exposition`: the text of a page.
    `downloads`: how far weights have come. `past`: weeks before anybody looked.
Figures out of them. `history`: samples of one pod. `window`: these by the names that its page shows. `arithmetic`:
    rates and quantiles. `whole_replicas`: several pages of one replica. `observation`: what a pod and a pool did.
    `arriving`: requests that came lately.
What is not believed. `odd_pages`: pages that are none. `odd_counts`: counts that cannot be. `contradictions`: figures
    that cannot be. `caveats`: what is told of all that.
In the end. `snapshot_builder`: one snapshot out of the caches.
"""
