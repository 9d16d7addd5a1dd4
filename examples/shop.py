"""A small shop at work; it is in the package, for ``duly dev --demo``. Look there: duly/demo.

Run it by ``duly dev examples/shop.py``; run this file to let customers in at once.
"""

from duly.demo import duly, open_shop

__all__ = ["duly", "open_shop"]

if __name__ == "__main__":
    open_shop.enqueue()
