"""What every learner is: algorithms, rounds, calibrations, devices, reference agents."""
