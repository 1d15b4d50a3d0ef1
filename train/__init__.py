"""How a model learns: the entry scripts and what they are made of."""

from pathlib import Path


def require_this_clone(script: str) -> None:
    """Refuse to run a script of one clone with the packages of another.

    Args:
        script: the script's own `__file__`.

    Raises:
        SystemExit: the imported `train` package lies in another folder than the script.
    """
    here, imported = Path(script).resolve().parent, Path(__file__).resolve().parent
    if here != imported:
        raise SystemExit(
            f"got the script {here / Path(script).name}, but its packages are installed from {imported.parent}; "
            f"run the script with the environment of its own clone: cd {here.parent} && make install, "
            "then .venv/bin/accelerate launch ..."
        )
