"""For tests of programs that use duly, and for the tests of duly itself."""
