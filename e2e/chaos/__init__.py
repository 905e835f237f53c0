"""What a split goes through while clients stream from it: traffic, eyes on its pods, changes and the report."""
