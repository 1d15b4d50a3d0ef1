"""The house rules of docs and design that a machine can check."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parent.parent
ORDER = ["tasks", "recipes", "data_mix", "models", "eval_hooks", "train"]
TORCH_FREE = ("tasks", "recipes")
HEAVY = {"torch", "torchvision", "transformers", "datasets", "trl", "peft", "accelerate", "wandb"}
SOURCES = sorted(file for package in ORDER for file in (ROOT / package).rglob("*.py"))
LOOKING_AHEAD = {"data_mix/show.py": {"models"}, "models/merge.py": {"eval_hooks"}}
"""Commands, which nothing imports, and the packages further down the line that each may use."""
EVERY_PYTHON_FILE = sorted([*SOURCES, *(ROOT / "tests").rglob("*.py"), *(ROOT / "benchmarks").rglob("*.py")])


def name_of(file: Path) -> str:
    return file.relative_to(ROOT).as_posix()


def parsed(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"), filename=str(file))


def imported_modules(file: Path) -> set[str]:
    """Dotted names of every import in a file, those inside functions too; `from a import b` gives a and a.b."""
    names = set()
    for node in ast.walk(parsed(file)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name_of(file)}: relative imports hide which package is meant"
            names |= {node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names


def imported(file: Path) -> set[str]:
    """Top-level names of every import in a file."""
    return {name.split(".")[0] for name in imported_modules(file)}


@pytest.mark.parametrize("file", SOURCES, ids=name_of)
def test_imports_run_one_way(file):
    own = ORDER.index(file.relative_to(ROOT).parts[0])
    assert imported(file) & set(ORDER[own + 1 :]) <= LOOKING_AHEAD.get(name_of(file), set())
    assert imported(file) & {"tests", "benchmarks"} == set()


@pytest.mark.parametrize("command", LOOKING_AHEAD)
def test_nothing_imports_a_command_that_looks_ahead(command):
    module = command.removesuffix(".py").replace("/", ".")
    importing = [file for file in SOURCES if module in imported_modules(file)]
    assert [name_of(file) for file in importing] == []
    assert 'if __name__ == "__main__":' in (ROOT / command).read_text(encoding="utf-8")


@pytest.mark.parametrize("package", TORCH_FREE)
def test_puzzles_and_recipes_name_no_heavy_library(package):
    for file in (ROOT / package).rglob("*.py"):
        assert imported(file) & HEAVY == set(), name_of(file)


def test_importing_every_module_of_puzzles_and_recipes_loads_no_heavy_library():
    modules = [
        name_of(file).removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        for file in SOURCES
        if file.relative_to(ROOT).parts[0] in TORCH_FREE and file.name != "__main__.py"
    ]
    code = f"import sys, {', '.join(modules)}; print(sorted({HEAVY!r} & set(sys.modules)))"
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.stdout.strip() == "[]", result.stdout + result.stderr


def test_no_file_in_train_hides_a_library():
    # `python train/sft.py` puts train/ first on sys.path.
    libraries = set(metadata.packages_distributions()) | set(sys.stdlib_module_names)
    own = {path.stem for path in (ROOT / "train").iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert own & (libraries - set(ORDER)) - {"__init__"} == set()


def test_no_module_is_a_drawer_for_odds_and_ends():
    drawers = {"util", "utils", "helper", "helpers", "common", "misc"}
    assert [name_of(file) for file in EVERY_PYTHON_FILE if drawers & {file.stem, *file.relative_to(ROOT).parts}] == []


def test_no_module_outgrows_a_reader():
    assert {name_of(f): n for f in SOURCES if (n := len(f.read_text(encoding="utf-8").splitlines())) > 400} == {}


@pytest.mark.parametrize("file", SOURCES, ids=name_of)
def test_sources_load_no_pickles_and_run_no_code_from_elsewhere(file):
    assert imported(file) & {"pickle", "dill", "cloudpickle", "joblib", "marshal", "shelve"} == set()
    for node in ast.walk(parsed(file)):
        if isinstance(node, ast.Call):
            call = ast.unparse(node.func)
            safe = any(k.arg == "weights_only" and ast.unparse(k.value) == "True" for k in node.keywords)
            assert call != "torch.load" or safe, f"{name_of(file)}:{node.lineno}: torch.load without weights_only=True"
            assert call not in {"yaml.load", "yaml.unsafe_load", "yaml.full_load", "eval", "exec", "os.system"}, call
            trusting = [k for k in node.keywords if k.arg == "trust_remote_code" and ast.unparse(k.value) != "False"]
            assert not trusting, f"{name_of(file)}:{node.lineno}: trust_remote_code"


@pytest.mark.parametrize("file", SOURCES, ids=name_of)
def test_no_except_catches_everything(file):
    for node in ast.walk(parsed(file)):
        if isinstance(node, ast.ExceptHandler):
            assert node.type is not None, f"{name_of(file)}:{node.lineno}: bare except"
            caught = {ast.unparse(n) for n in ast.walk(node.type) if isinstance(n, ast.Name)}
            assert not caught & {"Exception", "BaseException"}, f"{name_of(file)}:{node.lineno}: too wide an except"


def test_every_module_says_what_it_is():
    silent = [name_of(f) for f in SOURCES if f.read_text(encoding="utf-8").strip() and not ast.get_docstring(parsed(f))]
    assert silent == []


@pytest.mark.parametrize("file", sorted((ROOT / "launch").rglob("*.yaml")), ids=name_of)
def test_launch_configs_are_those_of_accelerate(file):
    from accelerate.commands.config.config_args import load_config_from_file

    config = load_config_from_file(str(file))
    assert config.num_processes == {"cpu2": 2, "one_gpu": 1, "one_node": 8, "several_nodes": 16}[file.stem]
    assert config.mixed_precision == "no", "precision is the recipe's"
    assert yaml.safe_load(file.read_text(encoding="utf-8"))["use_cpu"] == file.stem.startswith("cpu")


def test_two_cpu_processes_really_start(tmp_path):
    probe = tmp_path / "probe.py"
    probe.write_text(
        "import accelerate, pathlib\n"
        "state = accelerate.PartialState(cpu=True)  # as SFTConfig(use_cpu=True) makes it\n"
        f"(pathlib.Path({str(tmp_path)!r}) / str(state.process_index)).write_text(str(state.num_processes))\n",
        encoding="utf-8",
    )
    config = ROOT / "launch" / "accelerate" / "cpu2.yaml"
    command = [
        sys.executable,
        "-m",
        "accelerate.commands.launch",
        "--config_file",
        str(config),
        "--main_process_port",
        "0",
    ]
    result = subprocess.run([*command, str(probe)], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert [(tmp_path / rank).read_text(encoding="utf-8") for rank in "01"] == ["2", "2"]


def test_every_file_named_in_makefile_and_ci_is_there():
    for file in ("Makefile", ".ci/run"):
        text = (ROOT / file).read_text(encoding="utf-8")
        for named in set(re.findall(r"\b(?:train|recipes|launch|benchmarks)/[\w./-]+\.(?:py|yaml)\b", text)):
            assert (ROOT / named).exists(), f"{file} names {named}"


def test_the_generated_list_is_sorted_json():
    text = (ROOT / "recipes" / "trainer_fields.json").read_text(encoding="utf-8")
    assert list(json.loads(text)) == sorted(json.loads(text))
