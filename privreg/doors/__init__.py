"""Front doors: `regression` describes, plans and fits a model, `loading` reads saved results."""
