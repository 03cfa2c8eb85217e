"""Problems of contact as matrices and vectors, knowing no model."""
