"""What is known: tasks by name, what each of them takes, and what a running one may ask for."""
