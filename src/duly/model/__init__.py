"""What there is: the frozen values that everything else speaks about."""
