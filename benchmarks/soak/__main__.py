"""``python -m benchmarks.soak``."""

from benchmarks.soak.command import main

if __name__ == "__main__":
    main()
