"""The helpers beside this file are on the path of the tests below it, too."""
