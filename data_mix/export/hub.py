"""Uploading an export to the hub. Nothing else of an export touches a network."""

from __future__ import annotations

from pathlib import Path

from huggingface_hub import HfApi
from huggingface_hub.errors import HFValidationError
from huggingface_hub.utils import validate_repo_id

from recipes.fields import problem


def check_hub(name: str) -> None:
    """Refuse before hours of work what could not be uploaded after them.

    Raises:
        ValueError: no dataset's name, no network, or no login.
    """
    try:
        validate_repo_id(name)
    except HFValidationError as error:
        raise ValueError(problem("push_to", name, "USER/NAME", "do write push_to=USER/NAME")) from error
    if "/" not in name:
        raise ValueError(problem("push_to", name, "USER/NAME", f"do write push_to=USER/{name}"))
    try:
        HfApi().whoami()
    except OSError as error:
        raise ValueError(_unreachable(name, error)) from error


def push(folder: Path, name: str) -> str:
    """Upload shards and card; a repository that is new is private, as the rights of the photos are not known here.

    Returns:
        Its address.

    Raises:
        ValueError: the hub cannot be reached, or refuses.
    """
    api = HfApi()
    try:
        url = api.create_repo(name, repo_type="dataset", private=True, exist_ok=True)
        api.upload_folder(
            repo_id=name,
            folder_path=folder,
            repo_type="dataset",
            allow_patterns=["README.md", "data/*.parquet"],
            commit_message="Export of jigshape-train",
        )
    except OSError as error:
        raise ValueError(_unreachable(name, error)) from error
    return str(url)


def _unreachable(name: str, error: OSError) -> str:
    reason = " ".join(str(error).split())
    advice = "do check the network and `hf auth login`, or leave push_to out: what is written can be uploaded later"
    return problem("push_to", f"{name}, but the hub cannot be used ({reason})", "a hub that knows you", advice)
