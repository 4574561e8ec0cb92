"""What we learn: experiments, who was exposed to which variant, and what came of it."""
