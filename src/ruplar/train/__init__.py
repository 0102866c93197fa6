"""Examples → batches → a trained model."""
