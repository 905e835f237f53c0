"""The house itself: locks, and the rule that CI skips nothing."""
