"""Files that are read and written.

`reading`: resources and dumps of a fabric. `resources`: the pools and splits in them. `dumps`: whether Nodes and Pods
    look as a cluster writes them. `what_if`: a field of a resource changed.
`plain_text`: the text in bytes. `strict_yaml`: YAML as Kubernetes reads it. `whole`: a file written whole, or not.
"""
