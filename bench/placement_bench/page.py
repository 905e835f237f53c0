def as_page(told, picture):
    return ""
