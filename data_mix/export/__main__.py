"""`python -m data_mix.export recipe=NAME split=SPLIT ...`"""

import sys

from data_mix.export.command import main

if __name__ == "__main__":  # worker processes import this module
    sys.exit(main(sys.argv[1:]))
