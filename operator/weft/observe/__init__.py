"""Observing: caches of the cluster and of our resources, metrics sources, and the snapshot built from them.

Import names from their modules: `weft plan` reads nodes from a file, and need not load clients it never uses.

The cluster. `reflector`: one kind, kept current. `cluster_cache`, `resource_cache`, `gateway_cache`, `queue_cache`,
    `quota_cache` and `report_cache`: several kinds. `reading`: requests to the API server. `lookups`: what is read only
    on demand. `pod_logs`: the last lines of an engine that failed. `cluster_clock`: the time.
Its records. `records`: nodes, pods and objects. `amounts`: devices, as the scheduler counts them. `pod_words`: why a
    pod ended or waits. `identity`: the replica of a pod. `starts`: how long a start took. `bodies`: our own resources.
    `queue_records`, `quota_records` and `report_records`: what others report. `regained` and `regaining`: replicas
    that a status has lost.
Metrics. `collector`: the round over all pools. `targets`: which pods are asked. `scrape_target`: one of these.
    `sources`: where the answer comes from, which is `direct` or `prometheus`. `pickers`: endpoint pickers of others.
    `bounded`: answers that are neither too large nor too slow.
    `exposition`: the text of a page. `downloads`: the progress of weights. `past`: traffic of the weeks before.
Figures from them. `history`: samples of one pod. `window`: these by the names that its page shows. `arithmetic`: rates
    and quantiles. `whole_replicas`: several pages of one replica. `observation`: what a pod and a pool did.
    `pool_totals`: the figures of a pool, out of those of its pods. `arriving`: requests that came lately.
What is not believed. `odd_pages`: outdated or foreign pages. `odd_counts`: impossible counts. `contradictions`:
    impossible figures. `caveats`: what is reported about them.
The result. `snapshot_builder`: one snapshot from the caches.
"""
