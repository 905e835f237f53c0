"""Kubernetes objects, from plain JSON to frozen records: neither clients nor IO.

`records`: nodes, pods and whatever Weft owns. `amounts`: devices, as the scheduler counts them. `identity`: the replica
    of a pod. `pod_words`: why it ended or waits. `starts`: how long its start took.
`queues`: those of Kueue. `quotas`: ResourceQuotas. `reports`: ResourceSlices, ComputeDomains and Topologies.
"""
