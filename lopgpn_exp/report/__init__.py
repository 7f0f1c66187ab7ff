"""Results in, text and pictures out: terminal tables, HTML pages, charts and figures.

Nothing is imported here, so that `report.names` stays cheap for the commands that need only names.
"""
