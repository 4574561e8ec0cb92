"""Planning experiments: the users that an effect needs, forecasts of a running one, and calibrations."""
