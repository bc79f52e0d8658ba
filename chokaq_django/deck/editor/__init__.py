"""A payload as a form: inputs made of the type's schema, and the JSON that a form says.

Every number and decimal goes through the form as text, so that all of its digits come back.
"""
