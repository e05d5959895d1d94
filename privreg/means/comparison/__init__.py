"""Which mechanism is best for many means: `theory` predicts and draws it, `shrinkage` improves estimates."""
