"""The loop and the services that it drives. They know the store only by its protocol."""
