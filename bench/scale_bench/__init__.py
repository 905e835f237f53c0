"""A whole pass on clusters of up to 40,000 GPUs."""
