"""A stream of requests through a front to engines that come and go.

`stream`: one of them. `streams`: several on one cluster. `agenda`: what is due when. `front`: which engine is chosen.
    `dispatch`: routing, hand-over and retries. `served`: an engine as the front knows it. `ledger`: what became of all.
`scrapes`: when engines are scraped. `observing`: what that tells.
"""
