"""`python -m tunebuild`."""

from tunebuild.cli import main

if __name__ == "__main__":
    main()
