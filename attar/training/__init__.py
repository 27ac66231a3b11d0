"""Train readers on real questions, evaluate them and calibrate their probabilities."""
