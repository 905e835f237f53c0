"""What metrics were over the last window, whoever was asked.

`scrape_target`: whose page it is. `history`: samples of one pod. `window`: these by the names that its page shows.
    `whole_replicas`: several pages of one replica. `arithmetic`: rates and quantiles.
"""
