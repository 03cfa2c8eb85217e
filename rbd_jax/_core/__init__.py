"""What all packages use: arrays, arguments, errors, compiled functions, derivatives, files."""
