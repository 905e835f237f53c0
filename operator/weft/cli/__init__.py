"""The command line: `weft plan | explain | top | fabric | crds | run`."""
