"""What the doctor says of the installed packages and of their company."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from packaging.requirements import Requirement

from train.finding import Finding

APART = {
    "vllm": "it pins its own torch and transformers; do give it an environment of its own",
    "liger-kernel": "it does not import with Qwen3-VL here, and patches Gemma3 process-wide; do uninstall it",
}
"""Packages that do not live in this environment, and why."""
HYDRA_NEEDS = Requirement("omegaconf<2.4")


def versions(installed: Mapping[str, str], required: Sequence[str]) -> Iterator[Finding]:
    """
    Args:
        installed: package -> version.
        required: requirements as pyproject.toml has them.
    """
    wrong = []
    for requirement in map(Requirement, required):
        version = installed.get(requirement.name)
        if version is None:
            wrong.append(f"{requirement.name} is missing")
        elif not requirement.specifier.contains(version, prereleases=True):
            wrong.append(f"{requirement.name} {version}, tested with {requirement.specifier}")
    if wrong:
        yield Finding("bad", "packages", "; ".join(wrong), "do run: pip install -e . (or make install)")
    else:
        yield Finding("ok", "packages", f"all {len(required)} within the tested versions")
    torch_build, vision_build = (installed.get(name, "").partition("+")[2] for name in ("torch", "torchvision"))
    # without a name it is the package index's own build, of which the version does not say for what CUDA it is
    if torch_build != vision_build and ("cpu" in (torch_build, vision_build) or (torch_build and vision_build)):
        found = f"torch {installed.get('torch')} beside torchvision {installed.get('torchvision')}"
        yield Finding("bad", "torchvision", found, "its operators are missing or fail; do install both from one index")
    for name, why in APART.items():
        if name in installed:
            yield Finding("bad", name, f"{installed[name]} is installed here", why)
    omegaconf = installed.get("omegaconf")
    if "hydra-core" in installed and omegaconf and not HYDRA_NEEDS.specifier.contains(omegaconf, prereleases=True):
        found = f"{installed['hydra-core']} beside omegaconf {omegaconf}"
        yield Finding("bad", "hydra-core", found, f"it needs {HYDRA_NEEDS}; do install that, or uninstall hydra-core")
    if "deepspeed" in installed:
        found = f"{installed['deepspeed']} is installed"
        yield Finding("note", "deepspeed", found, "on its first use it compiles an operator, which takes minutes")
