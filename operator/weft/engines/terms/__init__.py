"""What every engine is asked, and answers, in the same words.

`contract`: the interface of every adapter. `launch`: what it is asked for one container, and what it answers.
`series`: what its metrics are called. `versions`: releases as numbers. `sizing`: times and sizes of any engine.
`mixers`: the kinds of attention and recurrence in a model.
"""
