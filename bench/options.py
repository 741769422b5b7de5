"""Options of the benchmark scripts; an error is reported in one line."""

import argparse


def number(low, high=None, kind=int):
    """A number, for argparse."""
    what = "a whole number" if kind is int else "a number"
    expected = f"expected {what} of at least {low}" if high is None else f"expected {what} from {low} to {high}"

    def read(text):
        try:
            value = kind(text)
        except ValueError:
            value = None
        # A value that is not a number (nan) is in no range.
        if value is None or not low <= value or (high is not None and value > high):
            raise argparse.ArgumentTypeError(f"`{text}`: {expected}")
        return value

    return read


def numbers(low, high, least=1):
    """Whole numbers, separated by commas; at least `least` of them."""

    def read(text):
        found = [number(low, high)(word) for word in text.split(",") if word]
        if len(found) < least:
            raise argparse.ArgumentTypeError(f"`{text}`: expected whole numbers from {low} to {high}")
        return found

    return read
