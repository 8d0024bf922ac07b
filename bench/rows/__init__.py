"""The rows of bench/compare, one module for each family, in the order of the report."""

from importlib import import_module

FAMILIES = ["passt", "mn", "roberta", "sentence", "step", "mel", "neighbours", "scoring", "search", "start"]


def all_rows():
    return {row.name: row for family in FAMILIES for row in import_module(f"rows.{family}").ROWS}
