"""From a recording to identified parameters: preprocessing, estimators, error bars, consistency, validation."""
