"""What moves: the loop, and the services it drives. It knows the store by its protocol only."""
