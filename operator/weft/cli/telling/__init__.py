"""What all pages have in common.

`terminal`: answers on stdout, notes on stderr. `live`: a page that is refreshed. `tables`: columns as kubectl prints
    them. `figures`: numbers and times. `alike`: a hundred notes of one kind as one. `plain_marks`: without Unicode.
"""
