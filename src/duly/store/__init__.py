"""What remembers: one implementation over two folders of SQL."""
