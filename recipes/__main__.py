"""python -m recipes recipe=NAME [key=value ...]: print the resolved recipe, itself a recipe file."""

import sys

from recipes.loader import recipe_from_command_line, to_yaml

if __name__ == "__main__":
    print(to_yaml(recipe_from_command_line(sys.argv[1:])), end="")
