"""The two resources: models, definitions, and the way from a body to a record and from a decision to a status."""
