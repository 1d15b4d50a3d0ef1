"""A script of one clone never runs with the packages of another."""

import pytest

import train
from train import require_this_clone


def test_a_script_beside_its_packages_runs():
    require_this_clone(train.__file__)


def test_a_script_of_another_clone_is_refused_with_what_to_do(tmp_path):
    with pytest.raises(SystemExit, match="run the script with the environment of its own clone"):
        require_this_clone(str(tmp_path / "train" / "sft.py"))
