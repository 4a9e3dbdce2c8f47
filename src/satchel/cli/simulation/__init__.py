"""What a recorded session would have cost under several rules of eviction, with a prompt cache."""
