"""`weft plan` and `weft predict`.

`command`: reads, decides and shows. `asking`: a pool made of options. `planning`: decided until nothing changes.
    `study`: what other requirements would take. `exporting`: the resource that a plan recommends.
`page`: a plan as text or data. `study_page`: the study below it. `predicting`: a table of loads, each predicted.
`picture`: what is drawn, by `plotting` into a file with matplotlib, and by `terminal_plot` in dots. `placing_labels`:
    where texts have room. `dark_svg`: colours by the page around it.
"""
