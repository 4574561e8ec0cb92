"""The parts of the results page: verdict, a card for each metric, phases, explanations."""
