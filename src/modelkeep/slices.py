"""Slice: a cut of a network f into g ∘ h at a named place, exact, with whatever passes around that place."""
