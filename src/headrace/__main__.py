"""`python -m headrace`, and the file to give to spark-submit."""

from headrace.cli import main

if __name__ == "__main__":
    main()
