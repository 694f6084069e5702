"""Small changes to the code of pure packages, and whether a package's quick tests notice them."""
