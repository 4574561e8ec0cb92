"""Whether users got the variants that the published hash and the configuration of the moment give them."""
