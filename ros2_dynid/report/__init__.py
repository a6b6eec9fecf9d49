"""What a person sees of an identification: one HTML page, figures for papers, and tables."""
