"""Which mechanism is best for many means: `theory` predicts it, `shrinkage` improves estimates, `plots` draw both."""
