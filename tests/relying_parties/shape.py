"""Compares an answer that a page shows with one of the server."""

import re

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")


def assert_shape(sample, answer, place=""):
    """Same fields in the same order, same values; of ids and versions the beginning, of times the form."""
    assert type(sample) is type(answer), f"{place}: {sample!r} on the page, {answer!r} from the server"
    if isinstance(sample, dict):
        assert list(sample) == list(answer), place
        for name in sample:
            assert_shape(sample[name], answer[name], f"{place}.{name}")
    elif isinstance(sample, list):
        assert len(sample) == len(answer), place
        for index, (one, other) in enumerate(zip(sample, answer)):
            assert_shape(one, other, f"{place}[{index}]")
    elif isinstance(sample, str) and sample.endswith("…"):
        assert "_" not in sample or answer.split("_")[0] == sample.split("_")[0], f"{place}: {answer}"
    elif isinstance(sample, str) and TIME.fullmatch(sample):
        assert TIME.fullmatch(answer), f"{place}: {answer}"
    else:
        assert sample == answer, f"{place}: {sample!r} on the page, {answer!r} from the server"
