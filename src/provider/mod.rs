//! The provider's side of the house: a letter becomes a request, an answer becomes a decision.
