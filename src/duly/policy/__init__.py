"""What is decided: facts and a moment in, a decision out."""
