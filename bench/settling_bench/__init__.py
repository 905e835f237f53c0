"""Histories in which pools crowd each other, and what a second look at the same moment says otherwise."""
