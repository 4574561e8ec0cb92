"""Planning experiments: how many users an effect needs, forecasts of running experiments, and calibrations."""
