"""How frozen values are made and copied fast, compared with those of the last pass, and checked; whatever they mean.

`made_often`: a constructor. `changed`: a copy with other fields. `remembered`: last answers, given again to the same
    question. `typed`: whether a value is of its annotated type.
"""
