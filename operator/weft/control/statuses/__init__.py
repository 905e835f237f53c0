"""Statuses of our resources, of which each loop writes its part.

`status`: whether one has to be written. `status_writer`: writes it. `definitions`: which fields the cluster lacks.
    `other_operators`: whether somebody else writes it, too.
"""
